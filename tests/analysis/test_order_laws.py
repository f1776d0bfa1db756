"""The laws of `relpos order`: what a network that knows no order, or one direction only, must
show."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from measures.test_gaps import network
from relpos.analysis.shuffle_gap import MIRRORED, gaps, shuffled
from relpos.data.pairs import PairItem, ToyPairs
from relpos.data.steps import Steps
from relpos.data.store import Store
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError
from relpos.measures.kinds.attention import attention_mass
from relpos.measures.kinds.pairs import PairScores, minimal_pairs
from relpos.model.heads import MaskedLM
from schemes import CONVS, POSITIONS, VOCABULARY, model_of


@pytest.fixture(scope="module")
def forward(tokenizer: Tokenizer, store: Store) -> MaskedLM:
    """One layer that sees the next token and hardly any other, trained for some seconds."""
    size: dict[str, Any] = dict.fromkeys(("hidden", "embedding", "ffn", "max_positions"), 64)
    size |= {"layers": 1, "dropout": 0.0, "attention_dropout": 0.0}
    model = one_directional(
        model_of("fixed", vocabulary=tokenizer.size, spread=0.0, **size).float()
    )
    model.encoder.position.requires_grad_(False)
    optimiser = torch.optim.Adam(
        [parameter for parameter in model.parameters() if parameter.requires_grad], 5e-3
    )
    examples = store.examples("train", "pair", 64, 32 * 150)
    for step in Steps(examples, 0, 32, 32, store.vocabulary, stop=150):
        for part in step.microbatches:
            optimiser.zero_grad()
            model.loss(part.input_ids, part.labels, part.attention_mask).backward()
            optimiser.step()
    return model.eval()


def test_a_kernel_of_one_direction_has_learned_an_order_and_the_direction(
    forward, tokenizer, store
):
    changes = shuffled(Words(tokenizer)) | MIRRORED
    for packing in ("pair", "document"):
        gap = gaps(forward, store.examples("heldout", packing, 64, 60), changes)
        assert all(low > 0 for low, _ in gap.intervals.values())
        assert gap.gaps["2"] < gap.gaps["all"]


def test_a_kernel_of_one_direction_is_better_than_its_mirror_image(forward, tokenizer):
    scores, mirrored = (
        minimal_pairs(model, tokenizer, ToyPairs(count=15).pairs()).summary()["same_words"]
        for model in (forward, one_directional(deepcopy(forward), -1))
    )
    assert scores["interval"][0] > 50
    assert scores["accuracy"] > mirrored["accuracy"]


@pytest.mark.parametrize("form", ["within_word", "plain"])
@pytest.mark.parametrize("seed", [0, 1])
def test_without_positions_pairs_of_the_same_words_are_ties(tokenizer, form, seed):
    scores = minimal_pairs(
        network(tokenizer, seed=seed), tokenizer, ToyPairs(count=8).pairs(), form
    )
    same, others = (scores.summary()[key] for key in ("same_words", "others"))
    assert (same["accuracy"], same["interval"]) == (50.0, [50.0, 50.0])
    assert (same["n"], others["n"]) == (56, 48)
    assert set(scores.right[~scores.same]) <= {0.0, 1.0}


def test_with_positions_pairs_of_the_same_words_are_no_ties(tokenizer):
    right = minimal_pairs(
        network(tokenizer, "absolute"), tokenizer, ToyPairs(count=8).pairs()
    ).right
    assert 0.5 not in right


def test_a_sentence_that_is_too_long_is_refused_with_its_place(tokenizer):
    pair = PairItem("own", ("the dog " * 40, "the cat"), "own.txt, line 3")
    with pytest.raises(
        RelposError,
        match=r"own\.txt, line 3: a sentence of 82 tokens is too long: Absolute serves 64",
    ):
        minimal_pairs(network(tokenizer, "absolute"), tokenizer, [pair])


def test_a_summary_pools_pairs_with_the_same_words_and_the_others():
    scores = PairScores(
        np.array([1.0, 0.5, 0.0, 1.0]),
        np.array([0.5, 0.5, 0.5, 0.25]),
        np.array([True, True, False, False]),
        ["a", "a", "a", "b"],
    )
    summary = scores.summary()
    assert [summary[key]["accuracy"] for key in ("same_words", "others")] == [75.0, 50.0]
    assert {name: group["accuracy"] for name, group in summary["paradigms"].items()} == {
        "a": 50.0,
        "b": 100.0,
    }
    assert [summary[key]["ties_right"] for key in ("same_words", "others")] == [100.0, 50.0]
    assert [summary[key]["guess"] for key in ("same_words", "others")] == [50.0, 37.5]
    nothing = {"accuracy": None, "interval": None, "n": 0, "ties_right": None, "guess": None}
    assert (
        PairScores(np.zeros(0), np.zeros(0), np.zeros(0, bool), []).summary()["others"] == nothing
    )


def texts(count: int = 40, n: int = 12) -> torch.Tensor:
    return torch.randint(5, VOCABULARY, (count, n), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("position", POSITIONS)
def test_the_attention_adds_up_to_one(position):
    attention = attention_mass(model_of(position), texts(4))
    total = np.array(attention["mass"]).sum(-1) + attention["before"] + attention["after"]
    # each half of a head by itself
    assert total.shape == (2, 4 if position == "dual_triangle_split" else 2)
    assert total == pytest.approx(np.ones(total.shape), abs=1e-6)


@pytest.mark.parametrize("conv", CONVS)
def test_a_convolution_leaves_the_attention_of_the_heads_that_have_scores(conv):
    model = model_of("none", conv)
    attention = attention_mass(model, texts(4))
    scored = model.encoder.layers[0].attention.scored  # type: ignore[union-attr]
    assert [len(row) for row in attention["mass"]] == [scored, scored]


def test_the_attention_of_a_kernel_at_plus_one_goes_to_the_next_token():
    attention = attention_mass(one_directional(model_of("fixed")), texts(4))
    next_token = attention["offsets"].index(1)
    assert np.array(attention["mass"])[..., next_token].min() > 0.9


def one_directional(model: MaskedLM, offset: int = 1) -> MaskedLM:
    """The heads of `fixed` see the token at this offset and hardly any other."""
    beta = model.encoder.position.beta
    with torch.no_grad():
        beta.zero_()
        beta[..., beta.shape[-1] // 2 + offset] = 60.0
    return model

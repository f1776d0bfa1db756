"""Shares regained after position embeddings were removed, and their intervals."""

from typing import Any

import numpy as np
import pytest
import torch

from measures.test_figures_of_measures import Pieces
from relpos.data.words import Words
from relpos.errors import RelposError
from relpos.measures.kinds.removal import (
    HELDOUT_SEED,
    Batches,
    compared,
    masked_texts,
    passed,
    share_interval,
    train_head,
    variants,
    with_random_tisa,
)
from relpos.model.heads import MaskedLM
from relpos.model.surgery import position_table
from schemes import model_of

TOKENIZER: Any = Pieces()


def counting(count: int) -> torch.Tensor:
    """Texts in which every word follows from its place, unless it is one of a few that are
    random."""
    ids = 5 + torch.arange(12).expand(count, 12).clone()
    noise = torch.rand(count, 12, generator=torch.Generator().manual_seed(0))
    return torch.where(noise < 0.1, 20, ids)


def masked(count: int) -> tuple[Batches, Batches]:
    """Texts of `counting` masked, their words in order and shuffled."""
    in_order, shuffled = (
        masked_texts(counting(count), TOKENIZER, HELDOUT_SEED, words)
        for words in (None, Words(TOKENIZER))
    )
    return in_order, shuffled


@pytest.fixture(scope="module")
def model() -> MaskedLM:
    """A network that reads words off their places: its outputs depend on them strongly, and its
    head is trained."""
    encoder = model_of("absolute").float().encoder
    with torch.no_grad():
        position_table(encoder).mul_(30)
    return train_head(encoder, counting(64), TOKENIZER, epochs=30, rows=32, lr=0.05)


def test_the_regained_loss_lies_in_its_interval(model):
    intact, removed, *_, regained = compared(variants(model, 14, [1], 1), *masked(40))
    assert removed["loss"] > intact["loss"] + 0.5
    assert removed["output_recovered"] is None
    assert regained["loss_recovered"] == pytest.approx(
        (removed["loss"] - regained["loss"]) / (removed["loss"] - intact["loss"])
    )
    low, high = regained["loss_recovered_low"], regained["loss_recovered_high"]
    assert low < regained["loss_recovered"] < high


def test_the_intact_network_regains_everything(model):
    (intact, removed), texts = list(variants(model, 14, [1], 0))[:2], masked(20)
    *_, again = compared([intact, removed, ("again", model)], *texts)
    assert again["loss_recovered"] == again["output_recovered"] == 1 - again["output_distance"] == 1


@torch.no_grad()
def test_distances_are_those_of_plain_loops(model):
    texts, other = masked(20), with_random_tisa(model, 2, 0)
    outputs = [[network.encoder(ids) for ids, _ in texts[0]] for network in (model, other)]
    pairs = [(token, place, twin) for batches in zip(*outputs, strict=True) for row, moved in zip(*batches, strict=True)
             for place, (token, twin) in enumerate(zip(row.double(), moved.double(), strict=True))]  # fmt: skip
    mean = torch.stack([token for token, _, _ in pairs]).mean(0)
    spread = sum(float((token - mean).square().sum()) for token, _, _ in pairs) / len(pairs)
    apart = {
        place: [
            float((twin - token).square().sum()) for token, here, twin in pairs if here == place
        ]
        for place in range(14)
    }
    _, measured = compared([("intact", model), ("TISA", other)], *texts)
    assert measured["output_distance"] == pytest.approx(
        np.mean(list(apart.values())) / spread, rel=1e-4
    )
    assert measured["cls_distance"] == pytest.approx(np.mean(apart[0]) / spread, rel=1e-4)
    assert measured["cls_distance"] != pytest.approx(measured["output_distance"], rel=0.01)


def test_losses_of_texts_add_up_to_that_of_the_network(model):
    texts, shuffled = masked(20)
    total = sum(float(model.loss_sum(ids, labels)[0]) for ids, labels in texts)
    assert passed(model, texts)[0].sum() == pytest.approx(total, rel=1e-5)
    predicted, moved = (
        [labels[labels != -100].sort()[0].tolist() for _, labels in batches]
        for batches in (texts, shuffled)
    )
    assert predicted == moved  # the same tokens, in another order


def test_an_interval_is_paired_by_text():
    lost = np.random.default_rng(0).uniform(1, 9, 60)
    noise = np.random.default_rng(1).normal(0, 0.05, 60)
    low, high = share_interval(0.5 * lost + noise, lost) or (0.0, 1.0)
    assert 0.49 < low < 0.5 * lost.sum() / lost.sum() + noise.sum() / lost.sum() < high < 0.51


def test_the_intact_network_stays_as_it_is(model):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    list(compared(variants(model, 14, [2], 1), *masked(4)))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_share_of_a_loss_that_may_be_zero_or_of_a_single_text_has_no_interval():
    lost = np.random.default_rng(0).normal(0, 1, 20)
    assert share_interval(0.5 * lost + 1, lost) is None
    assert share_interval(np.array([1.0]), np.array([2.0])) is None


def test_texts_without_masked_tokens_are_refused(model):
    [unmasked] = masked_texts(counting(1)[:, :1], TOKENIZER, HELDOUT_SEED)
    with pytest.raises(RelposError, match="no token of the held-out texts is masked"):
        next(compared([("intact", model)], [unmasked], [unmasked]))

"""`size.attention=causal`: the identity of a run, next-token loss, and fine-tuning on top of it."""

import math
from typing import Any

import pytest
import torch
from torch.nn import functional

import relpos
from linked import TINY
from relpos.config.compose import compose
from relpos.data.objective import Unmasked, next_tokens
from relpos.data.steps import heldout_batches
from relpos.data.store import Store
from relpos.errors import RelposError
from relpos.model.heads import MaskedLM
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.stages.pretrain import PretrainStage
from relpos.train import pretrain
from relpos.train.weights import opened

CAUSAL = ["size.attention=causal", "position=fixed"]


def planned(*overrides: str) -> PretrainStage:
    run = plan(compose("pretrain", [*TINY, *overrides]))
    assert isinstance(run, PretrainStage)
    return run


def test_bidirectional_attention_is_no_part_of_the_identity():
    plain, causal = planned(), planned("size.attention=causal")
    assert "attention" not in plain.meaning["size"]
    assert causal.meaning["size"] == plain.meaning["size"] | {"attention": "causal"}
    assert plain.identity != causal.identity
    assert "-causal-" in causal.name


def test_a_causal_network_has_no_masks():
    with pytest.raises(
        RelposError,
        match=r"recipe.masking=diffusion: a causal network \(size.attention=causal\) has no masks",
    ):
        planned(*CAUSAL, "recipe.masking=diffusion")


def test_a_decoder_has_the_modern_recipe_by_one_word():
    with pytest.raises(RelposError, match=r"no masks; its modern recipe is training=modern_causal"):
        planned(*CAUSAL, "training=modern")
    modern = planned("position=fixed", "training=modern").meaning
    causal = planned(*CAUSAL, "training=modern_causal").meaning
    assert causal["recipe"] | {"masking": 0.3} == modern["recipe"]


@pytest.mark.parametrize(
    ("overrides", "synonym"),
    [
        (["objective=diffusion"], ["recipe.masking=diffusion"]),
        (
            ["objective=bert", "objective.first=0.3", "objective.last=0.2"],
            ["recipe.masking=[0.3,0.2]"],
        ),
        ([*CAUSAL, "objective=causal"], CAUSAL),
    ],
)
def test_an_objective_is_the_same_run_by_either_name(overrides, synonym):
    run, twin = planned(*overrides), planned(*synonym)
    assert run.identity == twin.identity
    assert run.config.trained_for == twin.config.trained_for


def test_only_a_causal_network_predicts_the_next_token():
    with pytest.raises(RelposError, match=r"objective=causal: only a causal network"):
        planned("objective=causal")


def test_an_objective_of_the_users_own_is_trained_and_part_of_the_identity(tmp_path, monkeypatch):
    code = "from relpos.data.objective import Diffused\n\n\nclass Mine(Diffused):\n    masking = None\n"
    (tmp_path / "own_objective.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("RELPOS_TRUST", "own_objective")
    own = ["objective=diffusion", "objective._target_=own_objective.Mine"]
    run = planned(*own)
    assert run.meaning["objective"] == {"_target_": "own_objective.Mine"}
    assert list(run.meaning["sources"]) == ["own_objective.Mine"]
    assert type(run.config.trained_for).__name__ == "Mine"


def test_a_masking_rate_is_a_share():
    with pytest.raises(RelposError, match=r"recipe.masking=30"):
        compose("pretrain", [*TINY, "recipe.masking=30"])


@pytest.mark.parametrize("value", ["0", "1.5", "[0.3]", "[0.3,0.2,0.1]", "brt"])
def test_a_wrong_masking_is_one_line(value):
    with pytest.raises(
        RelposError,
        match=r"recipe.masking=.*: bert, diffusion or uniform, a number between 0 and 1 or a list",
    ):
        compose("pretrain", [f"recipe.masking={value}"])


def test_a_wrong_attention_is_one_line():
    with pytest.raises(
        RelposError, match=r"size.attention=left: bidirectional or causal is expected"
    ):
        compose("pretrain", ["size.attention=left"])


def test_a_causal_network_with_a_convolution_that_reads_ahead_is_refused(toy_runs):
    with pytest.raises(
        RelposError,
        match=r"size.attention=causal: conv Depthwise reads what stands on the right of a token",
    ):
        relpos.run(compose("pretrain", [*TINY, "size.attention=causal", "conv=depthwise"]))
    assert not (toy_runs / "pretrain").exists()


def test_every_token_of_text_is_predicted_and_none_is_masked():
    ids, lengths = (
        torch.tensor([[2, 9, 8, 3, 7, 3, 0, 0], [2, 9, 3, 7, 8, 9, 5, 3]]),
        torch.tensor([6, 8]),
    )
    seen, labels, _ = next_tokens.of(Unmasked(ids, lengths, torch.arange(2), 0, 20))
    assert torch.equal(seen, ids)
    expected = [[-100, 9, 8, -100, 7, -100, -100, -100], [-100, 9, -100, 7, 8, 9, 5, -100]]
    assert labels.tolist() == expected


@torch.no_grad()
def _loss(model: MaskedLM, store: Store) -> float:
    """Held-out loss of the next token, from all logits."""
    total, number = 0.0, 0
    examples = store.examples("heldout", "pair", 32, pretrain.HELDOUT_EXAMPLES)
    for batch in heldout_batches(examples, 16, store.vocabulary, objective=next_tokens):
        logits, rows = model(batch.input_ids, batch.attention_mask), batch.labels
        total += float(
            functional.cross_entropy(
                logits[:, :-1].flatten(0, 1), rows[:, 1:].flatten(), reduction="sum"
            )
        )
        number += int((rows[:, 1:] != -100).sum())
    return total / number


def test_pretraining_minimises_the_loss_of_the_next_token(toy_runs):
    run = execute(planned(*CAUSAL, "steps=40", "batch=16"))
    model: Any = opened(run.path / "model")
    assert model.encoder.causal
    store = Store(run.inputs["store"].path)
    assert run.metrics["heldout_loss"] == pytest.approx(_loss(model, store), rel=1e-5)
    assert run.metrics["heldout_loss"] < 0.9 * math.log(store.vocabulary)


def test_fine_tuning_goes_on_with_a_causal_network(toy_runs):
    start = relpos.run(compose("pretrain", [*TINY, *CAUSAL]))
    tuned = relpos.run(
        compose("finetune", ["task=rte", "intermediate=none", "steps=2", f"network={start.path}"])
    )
    model: Any = opened(tuned.path / "model")
    assert model.encoder.causal

"""Exact answers to length generalisation tasks."""

from pathlib import Path

import numpy as np
import pytest
import torch

import relpos
from linked import TINY, pretrained
from relpos.commands.compare import losses_of, why_not
from relpos.config.compose import called, compose
from relpos.data.length_tasks import LengthTask, Parity, Reverse
from relpos.data.tokenizer import CLS, MASK, SEP, Tokenizer
from relpos.data.toy.events import Chance
from relpos.errors import RelposError
from relpos.measures.measure import measured_columns
from relpos.model.heads import MaskedLM
from relpos.runs.networks import resolve
from relpos.runs.plan import plan
from relpos.tables.plan import PlannedRow

OWN = [override for override in TINY if not override.startswith(("steps", "data"))]


def trained(root: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> Path:
    monkeypatch.setenv("RELPOS_RUNS", str(root))
    return relpos.run(relpos.compose("pretrain", [*OWN, "data.longest=5", "data.examples=300", *overrides])).path


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pre-training that fills in answers."""
    return trained(tmp_path, monkeypatch, "data=copy", "position=rope", "steps=1", "batch=8")


def slow_count(model: MaskedLM, tokenizer: Tokenizer, task: LengthTask, lengths: range, count: int) -> tuple[float, float]:
    """Per cent of answers without a mistake and of right tokens, one example after the other and none padded."""
    chance, whole, right, tokens = Chance(task.seed, task.name, "test", lengths), 0, 0, 0
    for _ in range(count):
        question, answer = (tokenizer.encode([" ".join(part)])[0].tolist() for part in task.draw(chance, "test", lengths))
        ids = torch.tensor([[CLS, *question, SEP, *[MASK] * len(answer), SEP]])
        with torch.no_grad():
            filled = model(ids)[0, len(question) + 2 : -1].argmax(1).tolist()
        hits = [mine == theirs for mine, theirs in zip(filled, answer, strict=True)]
        whole, right, tokens = whole + all(hits), right + sum(hits), tokens + len(hits)
    return 100 * whole / count, 100 * right / tokens


@pytest.mark.parametrize(
    "task", [Parity(longest=5, examples=300), pytest.param(Reverse(longest=5, examples=300), marks=pytest.mark.full)]
)
def test_the_measure_is_a_slow_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: LengthTask) -> None:
    run = trained(tmp_path, monkeypatch, f"data={task.name}", "position=rope", "steps=40", "batch=32")
    found = relpos.order(run, overrides=["measure=exact", "examples=60"])["length_task"]
    network = resolve(run)
    for name, lengths in (("trained", range(1, 6)), ("longer", range(6, 11))):
        count = slow_count(network.masked_lm(), network.tokenizer(), task, lengths, 60)
        assert (found[name]["exact"], found[name]["tokens"]) == pytest.approx(count)
        assert {int(length) for length in found[name]["by_length"]} <= set(lengths)
    assert 0 < found["longer"]["tokens"] < 100


def test_lengths_beyond_a_table_of_positions_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(tmp_path, monkeypatch, "data=copy", "position=absolute", "steps=1", "size.max_positions=13", "length=13")
    assert list(relpos.order(run, overrides=["measure=exact", "examples=20"])["length_task"]) == ["trained"]


def test_a_causal_network_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    causal = ["size.attention=causal", "recipe.masking=bert"]
    run = trained(tmp_path, monkeypatch, "data=copy", "position=none", "steps=1", "batch=8", *causal)
    with pytest.raises(RelposError, match="a causal network has no masks"):
        relpos.order(run, overrides=["measure=exact"])


def test_it_is_measured_where_it_applies_alone(prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [run] = pretrained(prepared, tmp_path, {"absolute": ["position=absolute"]}).values()
    assert not measured_columns()["exact_trained"][0].suits(resolve(run))
    with pytest.raises(RelposError, match="it was not trained on a length generalisation task"):
        relpos.order(run, overrides=["measure=exact"])


@pytest.mark.parametrize("measure", ["shuffle", "mirror", "masking"])
def test_a_network_that_fills_in_answers_is_not_asked_for_other_masks(measure: str, answering: Path) -> None:
    said = r"trained to fill in answers \(recipe.masking=answer\).*`relpos order measure=exact`"
    with pytest.raises(RelposError, match=said):
        relpos.order(answering, overrides=[f"measure={measure}", "examples=20"])


def test_nor_at_other_lengths(answering: Path) -> None:
    with pytest.raises(RelposError, match="trained to fill in answers"):
        called("analyze", ["kind=lengths", f"network={answering}", "kind.lengths=[16]"])


def test_compared_losses_are_those_of_the_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path))
    shared = [*OWN, "data.longest=5", "data.examples=300", "position=rope", "steps=1", "batch=8", "data=copy"]
    answering, other = (relpos.run(compose("pretrain", [*shared, *more])) for more in ([], ["recipe.masking=bert"]))
    assert losses_of(answering, 1000).value == pytest.approx(answering.metrics["heldout_loss"], rel=1e-5)
    assert why_not([PlannedRow("answers", [], [answering], []), PlannedRow("masks", [], [other], [])]) is not None


def test_without_names_its_other_measures_are_made(answering: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = relpos.order(answering, overrides=["examples=20"])
    assert "length_task" in found
    assert not {"shuffle_gap", "mirror_gap", "masking"} & set(found)
    said = capsys.readouterr().err
    assert "without shuffle" in said
    assert "without masking" not in said


def test_columns_are_read_off_the_results() -> None:
    summary = {"exact": 50.0, "exact_interval": [0.0, 100.0], "tokens": 75.0, "tokens_interval": [50.0, 100.0]}
    by_example = {"length": [3, 1], "tokens": [3, 1], "right": [2, 1]}
    results = {"length_task": {"trained": summary}, "length_task_by_example": {"trained": by_example}}
    measure, _ = measured_columns()["tokens_trained"]
    figure = measure.figure("exact_trained", results)
    assert figure is not None
    assert (figure.value, figure.interval, figure.n) == (50.0, (0.0, 100.0), 2)
    assert figure.parts is not None
    assert np.divide(*figure.parts.sum(1)) == 50.0
    assert np.divide(*measure.figure("tokens_trained", results).parts.sum(1)) == 75.0  # type: ignore[union-attr]
    assert measure.figure("exact_longer", results) is None


def test_the_data_say_how_they_are_masked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path))
    assert plan(compose("pretrain", ["data=sort"])).meaning["recipe"]["masking"] == "answer"
    assert "masking" not in plan(compose("pretrain", ["data=sort", "recipe.masking=bert"])).meaning["recipe"]
    with pytest.raises(RelposError, match="packing=document: recipe.masking=answer masks the second sentence"):
        plan(compose("pretrain", ["data=sort", "packing=document"]))

"""Claims tested with fine-tunings of published checkpoints."""

from pathlib import Path
from typing import Any

import pytest

from claims.made_up import by_seeds
from relpos.claims import claim as files
from relpos.commands.claims import page
from relpos.results.scale import Scales
from relpos.results.tuned import tuned_checkpoints
from relpos.results.values import Value, tuning_values
from relpos.runs.run import Record

COLUMNS = ("cola", "mnli_m", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb")
JITTER = (-0.3, -0.1, 0.0, 0.1, 0.3)
TISA = {"tisa": 5, "start": "regression", "reused": False}


def tuning(
    change: dict[str, Any], seed: int, score: float, host: str = "hosts/albert"
) -> list[Value]:
    """The numbers of a fine-tuning on all tasks at once, which is shorter than one a task."""
    meaning = {"seed": seed, "steps": 9, "task": {"metric": "relpos.train.metrics.accuracy"}}
    metrics = {"columns": dict.fromkeys(COLUMNS, score), "majority": dict.fromkeys(COLUMNS, 50.0)}
    if change:
        meaning["change"] = change
    record = Record(meaning=meaning, inputs={"start": host}, metrics=metrics)
    return list(tuning_values(Path(f"{seed}"), [record], None))


def tunings(**scores: float) -> list[Value]:
    """Five fine-tunings of each row around its score."""
    changes: dict[str, dict[str, Any]] = {
        "absolute": {},
        "none": {"positions": "remove"},
        "absolute_tisa": TISA | {"positions": "keep"},
        "tisa": TISA | {"positions": "remove"},
        "tisa_s3": TISA | {"positions": "remove", "tisa": 3},
    }
    return [
        value
        for row, score in scores.items()
        for seed, jitter in enumerate(JITTER)
        for value in tuning(changes[row], seed, score + jitter)
    ]


def verdict(name: str, runs: Scales) -> tuple[str, list[str]]:
    [claim] = [claim for claim in files.load("wennberg2021") if claim.id == name]
    [judged] = page([claim], runs).claims
    return judged.head.verdict, [
        f"{verdict.scale}: {verdict.figures}" for verdict in judged.findings
    ]


def test_fine_tunings_of_a_checkpoint_have_the_rows_of_the_claims():
    [host] = tuned_checkpoints(
        tunings(absolute=90.0, none=80.0, absolute_tisa=91.0, tisa=84.0, tisa_s3=83.0)
    )
    assert host.label == "fine-tuned from albert, TISA from regression"
    assert set(host.values) == {"absolute", "none", "absolute_tisa", "tisa", "tisa_s3"}
    assert by_seeds(host.values["tisa"]["rte"])[4, 0] == pytest.approx(84.3)


def test_networks_that_were_pre_trained_here_or_have_no_positions_have_no_scale():
    of_ours = tuning({"positions": "remove"}, 0, 80.0, "runs/pretrain/absolute-0123")
    unknown = tuning({}, 0, 80.0) + tuning(TISA | {"positions": "keep", "start": "random"}, 0, 80.0)
    assert tuned_checkpoints(of_ours + unknown) == []


def test_each_way_of_starting_is_a_scale_of_its_own_beside_the_same_host():
    random = tuning(TISA | {"positions": "remove", "start": "random"}, 0, 81.0)
    scales = tuned_checkpoints(tunings(absolute=90.0, tisa=84.0) + random)
    assert [scale.label.partition(", ")[2] for scale in scales] == [
        "TISA from regression",
        "TISA from random values",
    ]
    assert [by_seeds(scale.values["tisa"]["rte"])[0, 0] for scale in scales] == [
        pytest.approx(83.7),
        81.0,
    ]
    assert all("absolute" in scale.values for scale in scales)


@pytest.mark.full
def test_claims_about_published_checkpoints_are_decided_over_fine_tuning_seeds():
    runs = Scales(
        [],
        tuned=tuned_checkpoints(tunings(absolute=90.0, none=80.0, absolute_tisa=92.0, tisa=84.0)),
    )
    for name in ("W08", "W13", "W14"):
        headline, [finding] = verdict(name, runs)
        assert headline == "holds", finding
        assert "over 5 fine-tuning seeds" in finding
        assert "from scratch" not in finding


def test_claims_about_training_from_scratch_ignore_published_checkpoints():
    runs = Scales([], tuned=tuned_checkpoints(tunings(absolute=90.0, none=80.0, tisa=84.0)))
    assert verdict("W15", runs) == ("not run", [])

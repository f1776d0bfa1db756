"""How long runs take: as finished runs like them took on this hardware, else it is unknown; operations are counted."""

from typing import Any

import pytest

import relpos
from relpos.files import write_json
from relpos.runs import cost
from relpos.runs.cost import Estimate, costs
from relpos.runs.plan import plan
from relpos.runs.run import Run, runs_root

HERE = {"processor": "one", "cores": 2}
SECONDS = 1_500  # of the finished runs below, a step each


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "hardware", lambda: HERE)


def pretraining(*overrides: str) -> Run:
    return plan(relpos.compose("pretrain", ["size=tiny", "steps=1500", *overrides]))


def record(run: Run, **changes: Any) -> dict[str, Any]:
    """That of a finished run of one thread."""
    inputs = {name: str(needed.path) for name, needed in run.inputs.items()}
    told = {"state": "finished", "stage": run.stage, "identity": run.identity, "starts": [{"threads": 1}], "hardware": HERE}
    return told | {"meaning": run.meaning, "inputs": inputs, "fit_seconds": SECONDS} | costs(run) | changes


def finish(run: Run, **changes: Any) -> Run:
    write_json(run.path / "record.json", record(run, **changes))
    return run


def test_the_operations_are_those_of_all_tokens_of_all_steps() -> None:
    run = pretraining()
    tokens = run.config["steps"] * run.config["batch"] * run.config["length"]
    assert costs(run)["flops_per_token"] * tokens == pytest.approx(costs(run)["flops"])
    assert costs(run.inputs["store"]) == {"flops": 0.0, "flops_per_token": 0.0}


def test_a_run_takes_as_long_as_the_median_of_those_like_it_with_any_scheme_and_seed() -> None:
    wanted = pretraining("steps=3000")
    assert Estimate().seconds(wanted) is None
    for seed, threads in ((1, 1), (2, 4), (3, 2)):
        finish(pretraining(f"seed={seed}", "position=fixed"), starts=[{"threads": threads}])
    assert Estimate().seconds(wanted) == pytest.approx(2 * 2 * SECONDS)  # of 1, 4 and 2 threads
    assert Estimate().seconds(wanted.inputs["store"]) == 0.0


@pytest.mark.parametrize(
    "other", ["data=files", "precision=bf16", "recipe.optimizer=muon", "size=small", "batch=8", "length=64", "packing=document"]
)
def test_runs_of_another_kind_tell_nothing(other: str) -> None:
    finish(pretraining())
    assert Estimate().seconds(pretraining("batch=100")) is not None
    assert Estimate().seconds(pretraining(other)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"hardware": HERE | {"gpus": ["a GPU"]}},
        {"starts": [{"threads": 1}, {"threads": 1}]},
        {"starts": [{"from_step": 10}]},
        {"state": "failed"},
        {"fit_seconds": 0},
        {"inputs": None},
        {"meaning": {}},
    ],
    ids=str,
)
def test_records_of_other_hardware_of_some_steps_alone_and_damaged_ones_tell_nothing(changes: dict[str, Any]) -> None:
    finish(pretraining("seed=1"), **changes)
    assert Estimate().seconds(pretraining()) is None


def test_tasks_differ_in_length_and_are_told_apart() -> None:
    cola, rte = (
        plan(relpos.compose("finetune", ["size=tiny", f"task={name}", "intermediate.task=none"])) for name in ("cola", "rte")
    )
    finish(cola)
    assert Estimate().seconds(cola) == pytest.approx(SECONDS)
    assert Estimate().seconds(rte) is None


def test_a_plan_sums_up_what_is_known_and_counts_the_rest() -> None:
    finish(pretraining("seed=1"))
    runs = [pretraining(), pretraining("seed=2"), pretraining("size=small")]
    assert Estimate().total(runs) == (2 * SECONDS, 1)


def test_what_is_left_of_runs_under_way_is_at_their_own_speed_and_that_of_others_at_theirs() -> None:
    runs = [pretraining(f"seed={seed}") for seed in range(3)]
    told = Estimate()
    assert told.left(runs, {}) == ""
    begun = {"starts": [{"threads": 1}], "hardware": {"processor": "a node"}}
    at_work = {run.identity: (begun, {"step": 500, "steps_per_second": 10.0}) for run in runs[:2]}
    assert told.left(runs, at_work) == "about 2:55 left"  # 100 s each of two, 150 s of the third, by two workers
    assert told.left(runs[1:], {runs[1].identity: at_work[runs[1].identity]}) == "about 2:05 left"
    assert told.left([*runs, pretraining("size=small")], at_work).endswith(" left, unknown for 1 of 4 runs")


def test_a_run_that_has_finished_meanwhile_counts() -> None:
    told = Estimate()
    assert told.left([pretraining()], {}) == ""
    told.add(record(pretraining("seed=1")))
    assert told.left([pretraining()], {}) == "about 25:00 left"
    assert not runs_root().exists()

"""How long runs take: their operations, which are counted, at a rate that finished runs had or
`relpos cost` measured."""

from typing import Any

import pytest

import relpos
from relpos.files import write_json
from relpos.runs import cost
from relpos.runs.cost import Estimate, costs
from relpos.runs.plan import plan
from relpos.runs.run import Run, runs_root
from relpos.runs.shelf import LOGGED

HERE = {"processor": "one", "cores": 2}
SECONDS = 1_500  # of the finished runs below, a step each


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "hardware", lambda: HERE)


def pretraining(*overrides: str) -> Run:
    return plan(relpos.compose("pretrain", ["size=tiny", "steps=1500", *overrides]))


def record(run: Run, **changes: Any) -> dict[str, Any]:
    """The record of a finished run of one thread."""
    content = {
        "state": "finished",
        "stage": run.stage,
        "starts": [{"threads": 1}],
        "hardware": HERE,
    }
    return content | {"fit_seconds": SECONDS} | costs(run) | changes


def test_the_operations_are_those_of_all_tokens_of_all_steps():
    run = pretraining()
    tokens = run.meaning["steps"] * run.meaning["batch"] * run.meaning["length"]
    assert costs(run)["flops_per_token"] * tokens == pytest.approx(costs(run)["flops"])
    assert costs(run.inputs["store"]) == {"flops": 0.0, "flops_per_token": 0.0}


def estimate_of(*records: dict[str, Any]) -> Estimate:
    estimate = Estimate()
    for finished in records:
        estimate.add(finished)
    return estimate


def test_runs_take_their_operations_at_the_rate_of_all_finished_ones_of_the_stage():
    wanted, tuned = (
        pretraining("steps=3000"),
        plan(relpos.compose("finetune", ["size=tiny", "task=cola"])),
    )
    assert Estimate().seconds([wanted]) is None
    several = [
        record(pretraining(f"seed={threads}", "position=fixed"), starts=[{"threads": threads}])
        for threads in (1, 2)
    ]
    estimate = estimate_of(*several)
    assert estimate.seconds([wanted]) == pytest.approx(2 * 1.5 * SECONDS)  # a mean of 1.5 threads
    assert estimate.seconds([wanted, wanted.inputs["store"]]) == estimate.seconds([wanted])
    assert estimate.seconds([tuned]) == pytest.approx(
        costs(tuned)["flops"] / estimate.rate("pretrain")
    )
    estimate.add(record(tuned))
    assert estimate.seconds([tuned]) == pytest.approx(SECONDS)
    assert estimate.seconds([wanted]) == pytest.approx(2 * 1.5 * SECONDS)


@pytest.mark.parametrize(
    "changes",
    [
        {"starts": [{"threads": 1}, {"threads": 1}]},
        {"starts": [{"from_step": 10}]},
        {"state": "failed"},
        {"fit_seconds": None},
        {"starts": None},
    ],
    ids=str,
)
def test_records_of_some_steps_alone_and_damaged_ones_tell_nothing(changes):
    assert estimate_of(record(pretraining("seed=1"), **changes)).seconds([pretraining()]) is None


@pytest.mark.parametrize("machine", [HERE, HERE | {"gpus": ["a GPU"]}])
def test_a_measured_rate_counts_on_its_hardware_until_a_run_has_finished(machine):
    write_json(runs_root() / "rate.json", {"hardware": machine, "operations_per_second": 1e9})
    seconds = Estimate().seconds([pretraining()])
    assert seconds == (costs(pretraining())["flops"] / 1e9 if machine is HERE else None)
    assert estimate_of(record(pretraining())).seconds([pretraining()]) == pytest.approx(SECONDS)


def test_the_time_left_follows_the_speed_of_each_run_under_way():
    runs = [pretraining(f"seed={seed}") for seed in range(3)]
    estimate = Estimate()
    assert estimate.left(runs, []) == ""
    for run in runs[:2]:
        run.update(starts=[{"threads": 1}], hardware={"processor": "a node"})
        (run.path / LOGGED).write_text('{"step": 500, "steps_per_second": 10.0}\n')
    # 100 s each of two, 150 s of the third, by two workers
    assert estimate.left(runs, runs[:2]) == "about 2:55 left"
    assert estimate.left(runs[1:], runs[1:2]) == "about 2:05 left"


def test_a_run_that_has_finished_meanwhile_gives_the_rate():
    estimate = Estimate()
    assert estimate.left([pretraining()], []) == ""
    estimate.add(record(pretraining("seed=1")))
    assert estimate.left([pretraining()], []) == "about 25:00 left"
    assert not runs_root().exists()

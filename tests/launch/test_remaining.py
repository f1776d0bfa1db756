"""How long a table still takes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relpos.launch.remaining import Remaining
from relpos.runs import Run, compose, plan
from relpos.runs.cost import flops


def pretraining(seed: int, steps: int = 100) -> Run:
    return plan(compose("pretrain", [f"seed={seed}", f"steps={steps}"]))


def started(seconds: float, **more: Any) -> dict[str, Any]:
    return {"starts": [{"time": (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()} | more]}


def test_nothing_is_said_before_a_run_has_a_speed() -> None:
    runs = [pretraining(0), pretraining(1)]
    assert Remaining().seconds(runs, {}) is None
    assert Remaining().seconds(runs, {runs[0].identity: (started(5), {})}) is None


def test_runs_that_are_left_take_as_long_as_finished_ones() -> None:
    remaining = Remaining()
    remaining.add(pretraining(0), {"state": "finished", "seconds": 10.0})
    assert remaining.seconds([pretraining(1), pretraining(2, steps=50)], {}) == pytest.approx(15, rel=1e-3)


def test_what_runs_under_way_have_done_is_not_left_and_they_are_side_by_side() -> None:
    first, second, third = (pretraining(seed) for seed in range(3))
    at_work = {run.identity: (started(20), {"step": 50}) for run in (first, second)}
    assert Remaining().seconds([first, second, third], at_work) == pytest.approx((20 + 20 + 40) / 2, rel=0.05)


def test_a_worker_between_two_runs_is_still_there() -> None:
    first, second, third = (pretraining(seed) for seed in range(3))
    remaining = Remaining()
    remaining.seconds([first, second, third], {run.identity: (started(20), {"step": 50}) for run in (first, second)})
    remaining.add(first, {"state": "finished", "seconds": 40.0})
    assert remaining.seconds([second, third], {second.identity: ({}, {"step": 50})}) == pytest.approx((20 + 40) / 2, rel=1e-3)
    assert remaining.seconds([third], {}) == pytest.approx(40, rel=1e-3)


def test_a_run_that_went_on_from_a_checkpoint_has_no_speed() -> None:
    run = pretraining(0)
    assert Remaining().seconds([run], {run.identity: (started(20, from_step=40), {"step": 50})}) is None


def test_a_stage_without_a_speed_of_its_own_takes_that_of_another() -> None:
    tuning = plan(compose("finetune", ["task=sst2"]))
    remaining = Remaining()
    remaining.add(pretraining(0), {"state": "finished", "seconds": 10.0})
    assert remaining.seconds([tuning], {}) == pytest.approx(10 * flops(tuning) / flops(pretraining(0)))
    remaining.add(tuning, {"state": "finished", "seconds": 7.0})
    assert remaining.seconds([tuning], {}) == pytest.approx(7)


def test_data_take_no_time() -> None:
    remaining = Remaining()
    remaining.add(pretraining(0), {"state": "finished", "seconds": 10.0})
    assert remaining.seconds([pretraining(0).inputs["store"]], {}) == 0

"""`relpos cost`: the figures, and that plans estimate with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import relpos
from relpos.commands.cost import cost
from relpos.commands.params import params
from relpos.runs import plan
from relpos.runs.cost import costs, flops_per_token, measured
from relpos.runs.execute import hardware
from relpos.runs.run import runs_root
from relpos.tables.dry_run import describe

TINY = ["size=tiny", "vocabulary=40", "batch=2", "length=8", "steps=5"]


def test_without_a_measurement_it_counts() -> None:
    content = json.loads(cost(relpos.compose("cost", [*TINY, "seconds=0"])))
    run = plan(relpos.compose("pretrain", TINY))
    assert content["operations"] == pytest.approx(costs(run)["flops"])
    assert content["parameters"] == json.loads(params(relpos.compose("params", TINY[:2])))["total"]
    assert "seconds" not in content
    assert not (runs_root() / "rates.json").exists()


def test_a_measurement_is_the_rate_of_plans(tmp_path: Path) -> None:
    overrides = [*TINY, "seconds=0.01", "batch=3", "speed.microbatch=2", "speed.accelerator=cpu"]
    first, content = (json.loads(cost(relpos.compose("cost", overrides))) for _ in range(2))
    assert content["seconds"] == pytest.approx(5 * content["step_seconds"])
    assert content["microbatch"] == 2
    assert first["operations"] == content["operations"]
    run = plan(relpos.compose("pretrain", TINY))
    rates = measured([], runs_root(), hardware())
    assert rates.tried(run) == pytest.approx(content["operations_per_second"])  # the newer one took the place of the first
    assert rates.of(run) is None
    assert flops_per_token(run) == pytest.approx(content["operations_per_token"])
    assert "1 of 1 runs by the rate that `relpos cost` measured" in describe("mine", [], [run])


def test_a_damaged_file_of_rates_is_no_problem_of_a_plan() -> None:
    runs_root().mkdir(parents=True, exist_ok=True)
    (runs_root() / "rates.json").write_text('[{"rate": 3}]')
    assert measured([], runs_root(), hardware()).measured == []

"""A rate is of runs like the one that is asked about, on this hardware."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import relpos
from relpos.files import write_json
from relpos.runs import plan
from relpos.runs.cost import costs, flops_per_token, measured

HERE = {"processor": "one", "cores": 2}


def finished(folder: Path, name: str, cost: float, rate: float, **changes: Any) -> None:
    record = {
        "state": "finished",
        "starts": [{"step": 0}],
        "hardware": HERE,
        "meaning": {"precision": "fp32"},
        "flops": rate * 10.0,
        "flops_per_token": cost,
        "fit_seconds": 10.0,
    }
    write_json(folder / "pretrain" / name / "record.json", record | changes)


def test_a_rate_is_the_median_of_runs_alike(tmp_path: Path) -> None:
    run = plan(relpos.compose("pretrain", ["size=tiny"]))
    own = flops_per_token(run)
    assert own * run.config["steps"] * run.config["batch"] * run.config["length"] == pytest.approx(costs(run)["flops"])
    assert measured([], tmp_path, HERE).of(run) is None
    for name, rate in (("a", 3e9), ("b", 4e9), ("c", 9e9)):
        finished(tmp_path, name, own * 1.5, rate)
    finished(tmp_path, "larger", own * 5, 1e12)
    finished(tmp_path, "bf16", own, 1e12, meaning={"precision": "bf16"})
    finished(tmp_path, "elsewhere", own, 1e12, hardware=HERE | {"gpus": ["a GPU"]})
    finished(tmp_path, "continued", own, 1e12, starts=[{"step": 0}, {"step": 8}])
    finished(tmp_path, "two_processes", own, 1e10, starts=[{"step": 0, "processes": 2}])
    finished(tmp_path, "failed", own, 1e12, state="failed")
    rates = measured([], tmp_path, HERE)
    assert rates.of(run) == pytest.approx((4e9 + 5e9) / 2)  # of 3, 4, 5 (two processes) and 9
    assert rates.of(plan(relpos.compose("pretrain", ["size=base"]))) is None
    assert rates.of(plan(relpos.compose("finetune", ["size=tiny"]))) is None

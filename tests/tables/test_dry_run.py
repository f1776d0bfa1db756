"""The estimate of a dry run: measured where it can be, and a guess is called one."""

from __future__ import annotations

from pathlib import Path

import pytest

from relpos.runs import cost, trial
from relpos.tables import dry_run, speeds
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table, runs_of
from tables.small_data import write_experiment


def told(tmp_path: Path, *overrides: str) -> str:
    rows = plan_table(load(str(write_experiment(tmp_path))), None, list(overrides))
    return dry_run.describe("small", rows, runs_of(rows)).splitlines()[1]


def test_a_small_model_is_estimated_by_a_step_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SECONDS", 0.0)
    said = told(tmp_path)
    assert "by the rate of a step tried here" in said
    assert "guess" not in said


def test_a_guess_is_called_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SMALL", 0.0)
    monkeypatch.setattr(speeds, "matrix_product", lambda: 1e9)
    said = told(tmp_path)
    assert "left, some of it guessed" in said
    assert f"by a guess, {cost.REACHED:.0%} of the rate of a matrix product here" in said


def test_a_step_is_tried_once_for_runs_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(trial, "seconds_of_a_step", lambda run: tried.append(run.stage) or 0.01)
    told(tmp_path)
    assert sorted(set(tried)) == sorted(tried)

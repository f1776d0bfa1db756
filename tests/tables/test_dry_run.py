"""The estimate of a dry run: measured where it can be, and what is unknown is called unknown."""

from pathlib import Path

import pytest

from relpos.errors import RelposError
from relpos.runs import estimate, measurement
from relpos.runs.run import make_runs_root
from relpos.tables import dry_run
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table, runs_of
from tables.small_data import write_experiment


def told(tmp_path: Path, *overrides: str) -> str:
    rows = plan_table(load(str(write_experiment(tmp_path))), None, list(overrides))
    return dry_run.describe("small", rows, runs_of(rows)).splitlines()[1]


def test_the_sentence_names_the_time_its_source_and_how_busy_the_machine_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_runs_root()  # keeps the rate
    monkeypatch.setattr(estimate.os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    quiet = told(tmp_path)
    assert quiet.endswith("runs by a rate measured here")
    monkeypatch.setattr(estimate.os, "getloadavg", lambda: (0.5 * estimate.os.cpu_count(), 0.0, 0.0))
    assert told(tmp_path) == f"{quiet}; the machine is 50% busy now: what runs beside other work takes longer"


def test_what_cannot_be_measured_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(run: object) -> None:
        raise RelposError("no such network")

    monkeypatch.setattr(measurement, "measured_rate", fails)
    assert told(tmp_path) == "an unknown time is left"

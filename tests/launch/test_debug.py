"""`engine=debug`: a table's runs in this very process."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from relpos.cli import main
from relpos.runs.stages import STAGES


@pytest.fixture
def table(tmp_path: Path) -> str:
    content = {"question": "?", "rows": {"noop": []}, "stages": {"noop": ["seconds=0"]}, "tasks": [], "seeds": 3}
    path = tmp_path / "sleep.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return f"table={path}"


def test_all_runs_are_executed_here(table: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    places: list[tuple[int, str]] = []

    def noop(run: Any) -> dict[str, Any]:
        print("what a run prints is shown")
        places.append((os.getpid(), run.name))
        return {}

    monkeypatch.setitem(STAGES, "noop", noop)
    assert main(["reproduce", table, "engine=debug"]) == 0
    assert places == [(os.getpid(), f"seed{seed}") for seed in range(3)]
    shown = capfd.readouterr()
    assert shown.out.count("what a run prints is shown") == 3
    assert shown.err.splitlines() == [f"relpos: noop seed{seed}" for seed in range(3)]


def test_an_error_of_a_run_ends_the_command_as_it_is(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A debugger stops where it happened."""
    monkeypatch.setitem(STAGES, "noop", lambda run: run.config["no such key"])
    with pytest.raises(KeyError, match="no such key"):
        main(["reproduce", table, "engine=debug"])


def test_a_wrong_input_is_one_line(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", table, "engine=debug", "noop.failures=1"]) == 1
    assert capsys.readouterr().err.splitlines() == ["relpos: noop seed0", "relpos: a failure on demand"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_stopped_and_goes_on(
    number: signal.Signals, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(STAGES, "noop", lambda run: signal.raise_signal(number) or {})
        assert main(["reproduce", table, "engine=debug"]) == 128 + number
    assert capsys.readouterr().err.splitlines()[-1] == "relpos: interrupted; the same command goes on from here"
    assert main(["reproduce", table, "engine=debug"]) == 0
    assert len(list((tmp_path / "runs" / "noop").glob("*/record.json"))) == 3


def test_a_run_that_takes_over_the_signals_does_not_keep_them(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training does: it finishes its step first."""
    monkeypatch.setitem(STAGES, "noop", lambda run: signal.signal(signal.SIGINT, lambda number, frame: None) and {})
    assert main(["reproduce", table, "engine=debug"]) == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

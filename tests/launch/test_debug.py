"""`engine=debug`: a table's runs in this very process."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from launch.test_launcher import NAME, experiment
from pretend import METRICS, trains, working
from relpos.cli import main
from relpos.runs.run import Run


@pytest.fixture
def table(tmp_path: Path, toy_runs: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(*working("pretrain", trains()))
    return f"table={experiment(tmp_path, pretrain_seeds=3)}"


def test_all_runs_are_executed_in_this_process(table, monkeypatch, capfd):
    places: list[tuple[int, str]] = []

    def train(run: Run) -> dict[str, Any]:
        print("what a run prints is shown")
        places.append((os.getpid(), run.name))
        return METRICS

    monkeypatch.setattr(*working("pretrain", train))
    assert main(["reproduce", table, "engine=debug"]) == 0
    assert places == [(os.getpid(), f"{NAME}{seed}") for seed in range(3)]
    shown = capfd.readouterr()
    assert shown.out.count("what a run prints is shown") == 3
    assert shown.err.splitlines() == [f"relpos: pretrain {NAME}{seed}" for seed in range(3)]


def test_an_error_of_a_run_ends_the_command_as_it_is(table, monkeypatch):
    """A debugger stops where the error arose."""
    monkeypatch.setattr(*working("pretrain", lambda run: run.meaning["no such key"]))
    with pytest.raises(KeyError, match="no such key"):
        main(["reproduce", table, "engine=debug"])


def test_a_wrong_input_is_one_line(table, monkeypatch, capsys):
    monkeypatch.setattr(*working("pretrain", trains(fails=1)))
    assert main(["reproduce", table, "engine=debug"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"relpos: pretrain {NAME}0",
        "relpos: a failure on demand",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_table_can_be_stopped_and_goes_on(number, table, tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(*working("pretrain", lambda run: signal.raise_signal(number) or METRICS))
        assert main(["reproduce", table, "engine=debug"]) == 128 + number
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "relpos: interrupted; the same command goes on from here"
    )
    assert main(["reproduce", table, "engine=debug"]) == 0
    assert len(list((tmp_path / "runs/pretrain").glob("*/record.json"))) == 3

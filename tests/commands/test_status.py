"""`relpos status` shows a table as it is, as its plan does, and ends when nothing more will
happen."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pretend import bare
from relpos.cli import main
from relpos.commands import status
from relpos.launch.jobs import Job, Standing
from relpos.launch.progress import Picture
from relpos.progress import console
from relpos.runs.run import Run
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table, runs_of
from tables.small_data import write_experiment


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Two fine-tunings, one of which starts from MNLI, for each of two pre-trainings; what all need
    is there."""
    monkeypatch.setenv("RELPOS_DATA", str(tmp_path / "nothing"))
    file = write_experiment(tmp_path, stages={"pretrain": ["steps=3"], "finetune": ["steps=3"]})
    runs = runs_of(plan_table(load(str(file))))
    for run in runs:
        if run.stage not in ("pretrain", "finetune"):
            run.update(state="finished")
    return runs


def looked(runs: list[Run]) -> Standing:
    standing = Standing(Job(runs))
    standing.look()
    return standing


def drawn(runs: list[Run]) -> str:
    console = Console(width=200)
    with console.capture() as shown:
        console.print(Picture(looked(runs), "small").whole())
    return shown.get()


def fail(runs: list[Run], row: str) -> None:
    for run in runs:
        if run.stage == "pretrain":
            run.end("failed", error="no") if run.config.row == row else run.update(state="finished")


def test_runs_that_need_a_failed_run_at_any_depth_wait_for_it(runs):
    fail(runs, "none")
    seen = looked(runs).states
    states = {(run.config.row, seen[run.identity]) for run in runs if run.stage == "finetune"}
    assert states == {("none", "waiting for a failed run"), ("fixed", "missing")}
    assert "1 failed, 3 waiting for a failed run, 3 missing" in drawn(runs)


def test_a_terminal_is_drawn_until_the_other_runs_are_done(runs, monkeypatch):
    fail(runs, "none")
    missing = [run for run in runs if run.stage == "finetune" and run.config.row == "fixed"]
    moments: list[Any] = []

    def finish_one(seconds: float) -> None:
        moments.append(seconds)
        missing.pop().update(state="finished")

    monkeypatch.setattr(status, "_job", lambda *arguments: ("small", Job(runs)))
    monkeypatch.setattr(status.sys, "stdout", _Terminal())
    monkeypatch.setattr(status.time, "sleep", finish_one)
    status.status("small", None, [], 0.0, "text")
    assert len(moments) == 3
    assert not looked(runs).unsettled


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_brackets_in_the_name_of_a_row_are_shown():
    assert "fixed[k=8]" in drawn([bare("toy", "x", {}, {"row": "fixed[k=8]"})])


def test_without_a_terminal_a_long_line_is_one_line(runs, capsys):
    first = next(run for run in runs if run.stage == "pretrain")
    first.update(state="failed", error="a reason of " + "many words " * 12, starts=[{}] * 9)
    console().print(Picture(looked(runs), "small").whole())
    assert any(
        line.startswith("pretrain ") and line.rstrip().endswith("words")
        for line in capsys.readouterr().out.splitlines()
    )


def test_a_plan_on_a_terminal_is_no_text_about_its_colours(monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal := _Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert main(["reproduce", "table=demo", "rows=[fixed]", "dry_run=true"]) == 0
    assert "\x1b[1m" in terminal.getvalue()
    assert "\\x1b" not in terminal.getvalue()

"""`relpos --help` is light (benchmarks/launcher.py has its time); tab completion answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pretend import bare
from relpos.cli import main
from relpos.config.compose import compose
from relpos.launch.jobs import Job
from relpos.runs.plan import plan
from relpos.runs.run import runs_root
from tables.small_data import finish

SHOW_MODULES = """
import json, sys
from relpos.cli import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = {
    "torch",
    "numpy",
    "hydra",
    "omegaconf",
    "pytorch_lightning",
    "torchmetrics",
    "datasets",
    "matplotlib",
    "wandb",
}


def complete(line: str, folder: Path) -> list[str]:
    """What bash offers for `line` with the cursor at its end."""
    script = f"""
      eval "$(relpos -sc install=bash)"
      COMP_LINE={line!r} COMP_POINT={len(line)} COMP_CWORD={line.count(" ")}
      hydra_bash_completion
      printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    answer = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.split()


def imported(*command: str) -> set[str]:
    """The modules that a process has imported when this command of relpos ends."""
    answer = subprocess.run(
        [sys.executable, "-c", SHOW_MODULES, *command], capture_output=True, text=True, check=True
    )
    return set(json.loads(answer.stdout.splitlines()[-1]))


def test_help_imports_nothing_heavy():
    assert HEAVY.isdisjoint(imported("--help"))


@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        (["status"], "torch"),
        (["status", "table=launched"], "torch"),
        # The stages' classes load it where they train, and not where they plan.
        (["reproduce", "table=demo", "dry_run=true"], "pytorch_lightning"),
        # Lightning takes seconds.
        pytest.param(
            ["order", "network=/nonexistent"], "pytorch_lightning", marks=pytest.mark.full
        ),
        pytest.param(["analyze", "toeplitz"], "pytorch_lightning", marks=pytest.mark.full),
    ],
)
def test_a_command_imports_what_it_needs(command, unneeded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = finish(bare("pretrain", "a", {"seed": 0}, {"row": "a"}), {"heldout_loss": 3.0})
    unfinished = plan(compose("pretrain", ["steps=2"]))
    Job.now([run, unfinished], 0).write(runs_root() / "tables" / "launched" / "plan.json")
    modules = imported(*command)
    assert f"relpos.commands.{command[0]}" in modules
    assert unneeded not in modules


def test_help_is_a_command_too(capsys):
    for asked, answered in ((["help"], ["--help"]), (["help", "params"], ["params", "--help"])):
        shown = []
        for command in (asked, answered):
            assert main(command) == 0
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1]


def test_completion_knows_the_subcommands(tmp_path):
    assert {"data", "pretrain", "params"} <= set(complete("relpos ", tmp_path))
    assert complete("relpos pre", tmp_path) == ["pretrain"]


@pytest.mark.full
def test_completion_knows_options_of_a_group(tmp_path):
    assert {"position=composite", "position=composite_key"} <= set(
        complete("relpos params position=comp", tmp_path)
    )

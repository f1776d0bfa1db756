"""`relpos --help` is light (benchmarks/launcher.py has its time); every module can be imported; tab completion answers."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import relpos
from relpos.cli import main

HELP = """
import json, sys
sys.argv = ["relpos", "--help"]
from relpos.cli import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = {"torch", "numpy", "hydra", "omegaconf", "pytorch_lightning", "torchmetrics", "datasets", "matplotlib", "wandb"}
COMPLETION = Path(relpos.__file__).with_name("completion.bash")


def complete(line: str, folder: Path) -> list[str]:
    """What bash offers for `line` with the cursor at its end."""
    script = f"""
      source {COMPLETION}
      COMP_LINE={line!r} COMP_POINT={len(line)}
      _relpos
      printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    answer = subprocess.run(
        ["bash", "-c", script], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    return answer.stdout.split()


def test_help_imports_nothing_heavy() -> None:
    answer = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(json.loads(answer.stdout.splitlines()[-1]))


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    for asked, answered in ((["help"], ["--help"]), (["help", "params"], ["params", "--help"])):
        shown = []
        for command in (asked, answered):
            assert main(command) == 0
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1]


def test_every_module_can_be_imported() -> None:
    names = [module.name for module in pkgutil.walk_packages(relpos.__path__, "relpos.")]
    for name in names:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    assert "relpos.cli" in names


def test_completion_knows_the_subcommands(tmp_path: Path) -> None:
    assert {"data", "pretrain", "params"} <= set(complete("relpos ", tmp_path))
    assert complete("relpos pre", tmp_path) == ["pretrain"]


@pytest.mark.full
def test_completion_knows_options_of_a_group(tmp_path: Path) -> None:
    assert {"position=composite", "position=composite_key"} <= set(complete("relpos params position=comp", tmp_path))

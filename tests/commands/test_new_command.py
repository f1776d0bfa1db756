"""A new subcommand is the two files of CONTRIBUTING's recipe: nothing else names it."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from relpos.cli import main
from relpos.config import conf
from relpos.ranges import Count

TEXT = """# relpos greet: says hello
# relpos greet WHO=world
defaults:
  - command
  - _self_

who: ???    # who is greeted
times: 2    # how often
"""


def greet(who: str, times: Count) -> str:
    return f"hello {who} " * times


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped folder `conf` with one more file, and a module of the name that goes with it."""
    for path in conf.conf_dir().iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "greet.yaml").write_text(TEXT)
    module = ModuleType("relpos.commands.greet")
    monkeypatch.setattr(module, "greet", greet, raising=False)
    monkeypatch.setitem(sys.modules, "relpos.commands.greet", module)
    for name in ("conf", "config.help", "config.quick", "config.compose"):
        monkeypatch.setattr(f"relpos.config.{name.removeprefix('config.')}.conf_dir", lambda: tmp_path)


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--help"], 0, "greet         says hello"),
        (["greet", "--help"], 0, "times: 2                             # how often"),
        (["greet", "who=you"], 0, "hello you hello you"),
        (["greet", "who=you", "times=0"], 1, "relpos: times=0: a whole number of 1 or more"),
        (["greet", "whom=you"], 1, "unknown key 'whom'. Did you mean 'who'?"),
        (["greet"], 1, "who must be given"),
        (["gret"], 1, "unknown command 'gret'. Did you mean 'greet'?"),
    ],
)
def test_it_is_found_checked_and_explained(
    arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == status
    assert said in "".join(capsys.readouterr())

"""What README and docs say exists."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from relpos.config.compose import compose
from relpos.config.conf import commands
from relpos.runs.plan import plan
from tests.packaging.links import ROOT, anchors, broken, pages

SHELL = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"`(make [a-z][^`]*)`")
MACHINE = re.compile(rb"(?<![\w.])/(?:work|root|home/\w|Users/\w|mnt/\w|tmp/\w)")


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))


def documented_commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    lines = [
        line.split("#")[0].strip() for block in SHELL.findall(text) for line in block.splitlines()
    ]
    return [line for line in lines if line] + COMMAND.findall(text)


def project_files() -> list[Path]:
    """What git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def test_link_check_finds_a_missing_file_and_a_missing_heading(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One thing\n[a](#one-thing) [b](gone.md) [c](#two) "
        "[d](https://example.org)\n`[e](code)`\n"
    )
    assert anchors(page) == {"one-thing"}
    assert [line.rpartition(" ")[2] for line in broken(page)] == ["gone.md", "#two"]


def test_every_make_command_is_a_target():
    lines = [line for page in pages() for line in documented_commands(page)]
    assert {
        word for line in lines for word in re.findall(r"\bmake ([a-z][a-z-]*)", line)
    } <= make_targets()


def test_every_command_of_readmes_list_exists():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [listed] = re.findall(r"(`relpos order`.*) measure what", text)
    assert {
        word.removeprefix("relpos ") for word in re.findall(r"`([^`]+)`", listed)
    } <= commands().keys()


def test_no_file_names_a_folder_of_some_machine():
    assert [
        str(path.relative_to(ROOT)) for path in project_files() if MACHINE.search(path.read_bytes())
    ] == []


def test_no_source_file_is_ignored_by_git():
    files = set(project_files())
    sources = {
        path
        for folder in ("src", "conf", "experiments", "tests")
        for path in (ROOT / folder).rglob("*.[py]*")
    }
    assert {
        path for path in sources - files if path.is_file() and "__pycache__" not in path.parts
    } == set()


def relpos_commands() -> list[str]:
    # keeps commands as they were typed
    pages_of_today = [page for page in pages() if page.name != "LOG.md"]
    lines = [line for page in pages_of_today for line in documented_commands(page)]
    # the reader's own files, and another's sweeper
    own = ("--", "=custom", "task=answers/", "trust=", "hydra/sweeper=")
    return sorted(
        {
            line
            for line in lines
            if line.startswith("relpos ") and "=" in line and not any(word in line for word in own)
        }
    )


def test_readmes_fine_tuning_starts_from_readmes_pre_training():
    commands = [
        shlex.split(line)[1:]
        for line in documented_commands(ROOT / "README.md")
        if line.startswith("relpos ")
    ]
    first, second = (
        next(words for words in commands if words[0] == stage) for stage in ("pretrain", "finetune")
    )
    assert (
        plan(compose(second[0], second[1:])).inputs["start"].identity
        == plan(compose(first[0], first[1:])).identity
    )


@pytest.mark.parametrize("line", relpos_commands())
def test_documented_command_composes(line):
    _, command, *arguments = shlex.split(line)
    # the first value of a sweep
    plain = [re.sub(r"=(\w+),.*", r"=\1", argument) for argument in arguments if argument != "-m"]
    assert compose(command, plain)

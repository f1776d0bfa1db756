"""`~` is a home everywhere alike, and a home that nobody has is one line."""

import re
from pathlib import Path

import pytest

import relpos
from relpos.cli import main
from relpos.data import filehash
from relpos.errors import RelposError
from relpos.places import expanded, runs_root

SOURCE = Path(relpos.__file__).parent


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def test_the_runs_and_the_cache_lie_in_the_home(home, monkeypatch):
    monkeypatch.setenv("RELPOS_RUNS", "~/x")  # as Docker, systemd and files of variables give it
    assert runs_root() == home / "x"
    home.mkdir(exist_ok=True)
    (home / "text").write_text("a")
    filehash.described([home / "text"], home)
    assert (home / "x" / "cache" / "hashes.json").is_file()


def test_a_sweep_lies_in_the_home(home, monkeypatch):
    monkeypatch.setenv("RELPOS_RUNS", "~/x")
    assert main(["params", "-m", "size=tiny", "position=none,fixed"]) == 0
    assert (home / "x" / "sweeps").is_dir()
    assert not Path("~").exists()


@pytest.mark.parametrize("command", [
    ["finetune", "task=rte", "network={}"],
    ["pretrain", "data=files", "data.root={}"],
    ["reproduce", "table={}.yaml"],
    ["export", "network={}", "to=x"],
    ["analyze", "toeplitz", "network={}"],
    ["analyze", "toeplitz", "network='{}'"],
    ["order", "network={}"],
    ["compare", "{}", "{}"],
])  # fmt: skip
def test_a_home_that_nobody_has_is_one_line(command, refused):
    line = refused(*(word.format("~nobody-of-this-name/x") for word in command))
    assert "there is no such file or folder, nor a home ~nobody-of-this-name" in line


def test_a_tilde_without_a_home_is_one_line(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda _: {}["nobody"])  # a user of a container's
    message = "~/x: there is no such file or folder, nor a home ~; HOME is not set"
    with pytest.raises(RelposError, match=f"^{message}$"):
        expanded("~/x")
    monkeypatch.setenv("RELPOS_RUNS", "~/x")
    with pytest.raises(RelposError, match=f"^RELPOS_RUNS={message}$"):
        runs_root()
    monkeypatch.setenv("RELPOS_RUNS", "x")
    assert runs_root() == Path.cwd() / "x"


def test_a_file_may_begin_with_a_tilde():
    Path("~notes.txt").touch()
    assert expanded("~notes.txt") == Path("~notes.txt")
    assert expanded("./~other") == Path("~other")


def test_homes_are_read_by_places_alone():
    by_itself = r"\.expanduser\(\)|import expanduser|Path\.home\(\)|environ.*RELPOS_RUNS"
    names = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(by_itself, path.read_text(encoding="utf-8"))
    }
    # the folder of compiled kernels does without a home
    assert names == {"model/kernels/kept.py", "places.py"}


def test_a_runs_folder_that_is_a_link_to_itself_is_refused(tmp_path, monkeypatch):
    (tmp_path / "runs").symlink_to(tmp_path / "runs")
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "runs"))
    with pytest.raises(RelposError, match="links lead in a circle"):
        runs_root()

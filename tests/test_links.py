"""No link is followed where results are written or copied: neither one in a stranger's folder nor a
planted one."""

import ast
import os
import secrets
from pathlib import Path

import pytest

import relpos
from pretend import pretend
from relpos import files
from relpos.errors import RelposError
from relpos.runs.execute import execute

SOURCE = Path(relpos.__file__).parent
OWN = {"files.py", "cli.py", "data/hub.py", "model/kernels/kept.py", "model/kernels/library.py"}
"""`files`; and those that write into what they have just made: /dev/null, a temporary folder, one
that is this user's alone, a file in memory."""
SECRET = "the content of another file"


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the user's that no result may touch."""
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "runs"))
    path = tmp_path / "home" / "id_rsa"
    path.parent.mkdir()
    path.write_text(SECRET)
    return path


@pytest.mark.parametrize(
    "name", ["log.txt", "config.yaml", "metrics.jsonl", "claim.lock", "anything"]
)
def test_a_link_in_a_runs_folder_is_refused_by_name(name, secret):
    run = pretend()
    run.path.mkdir(parents=True)
    (run.path / name).symlink_to(secret)
    with pytest.raises(RelposError, match=rf"{name} is a link to .*id_rsa"):
        execute(run, log=True)
    assert secret.read_text() == SECRET
    assert [path.name for path in run.path.iterdir()] == [name]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_link_in_the_place_of_a_folder_is_refused(depth, secret):
    run = pretend()
    link = [run.path, *run.path.parents][depth - 1]
    link.parent.mkdir(parents=True)
    link.symlink_to(secret.parent)
    with pytest.raises(RelposError, match="is a link to"):
        execute(run)
    assert [path.name for path in secret.parent.iterdir()] == ["id_rsa"]


def test_the_runs_folder_itself_may_be_a_link(secret, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    assert execute(pretend()).state == "finished"


def test_a_sweep_does_not_land_elsewhere(secret, refused):
    (secret.parent.parent / "runs").mkdir()
    (secret.parent.parent / "runs" / "sweeps").symlink_to(secret.parent)
    assert "sweeps is a link to" in refused("params", "-m", "size=tiny", "position=none,absolute")
    assert [*secret.parent.iterdir()] == [secret]


@pytest.mark.parametrize("below", ["runs/pretrain/run", "received/run"])
def test_results_beside_a_network_do_not_land_elsewhere(below, secret, tmp_path):
    (tmp_path / below).mkdir(parents=True)
    (tmp_path / below / "order").symlink_to(secret.parent)
    with pytest.raises(RelposError, match=r"order is a link to .*home"):
        files.write_json(tmp_path / below / "order" / "shuffle-1.json", {})
    assert [path.name for path in secret.parent.iterdir()] == ["id_rsa"]


def test_a_planted_temporary_name_is_not_followed(secret, tmp_path, monkeypatch):
    monkeypatch.setattr(secrets, "token_hex", lambda _: "feed")  # as if somebody had guessed it
    (tmp_path / f".a.txt.{os.getpid()}.feed").symlink_to(secret)
    with pytest.raises(RelposError, match=r"cannot write .*a\.txt .*File exists"):
        files.write_text(tmp_path / "a.txt", "x")
    assert secret.read_text() == SECRET


def test_a_folder_takes_no_place_of_a_link_and_clears_a_planted_one_alone(secret, tmp_path):
    (tmp_path / "place").symlink_to(secret.parent)
    with (
        pytest.raises(RelposError, match="place is a link to"),
        files.replacing_folder(tmp_path / "place"),
    ):
        pass
    (planted := tmp_path / ".other.1").symlink_to(secret.parent)
    os.utime(planted, (0, 0), follow_symlinks=False)
    with files.replacing_folder(tmp_path / "other"):
        assert not planted.is_symlink()
    assert secret.read_text() == SECRET


def test_a_file_is_written_anew_and_not_under_its_other_name(secret, tmp_path):
    for make in (os.symlink, os.link):
        (tmp_path / "a").unlink(missing_ok=True)
        make(secret, tmp_path / "a")
        with pytest.raises(RelposError, match="not a file of its own"):
            files.opened(tmp_path / "a", "ab")
        with files.opened(tmp_path / "a", "w") as file:
            file.write("new")
        assert (tmp_path / "a").read_text() == "new"
    assert secret.read_text() == SECRET


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RelposError, match="not a file of its own"):
        files.opened(tmp_path / "pipe", "ab")
    with pytest.raises(RelposError, match="no regular file"):
        files.copied(tmp_path / "pipe", tmp_path / "copy")


def opens_for_writing(call: ast.Call) -> bool:
    """Whether it writes to a file, but for the temporary one that `replacing` yields."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    of = getattr(getattr(call.func, "value", None), "id", "")
    if of == "temporary" or any(
        isinstance(word, ast.Name) and word.id == "temporary" for word in call.args
    ):
        return False
    if of == "shutil" and name not in ("rmtree", "disk_usage", "which"):
        return True
    if name in ("write_bytes", "write_text", "symlink_to", "touch"):
        # of a path; the function `write_text` is that of `files`
        return isinstance(call.func, ast.Attribute)
    modes = [
        word.value
        for word in (*call.args, *(more.value for more in call.keywords))
        if isinstance(word, ast.Constant)
    ]
    return name == "open" and any(
        isinstance(mode, str) and mode[:1] in ("w", "a", "x") and len(mode) < 4 for mode in modes
    )


def test_nothing_in_the_package_opens_a_file_for_writing_by_itself():
    lines = []
    for path in SOURCE.rglob("*.py"):
        if str(path.relative_to(SOURCE)) in OWN:
            continue
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
        ]
        lines += [
            f"{path.relative_to(SOURCE)}:{call.lineno}" for call in calls if opens_for_writing(call)
        ]
    assert not lines

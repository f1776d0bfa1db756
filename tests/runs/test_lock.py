"""A run is locked by one process at a time, and the lock dies with its holder."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from relpos.cli import main
from relpos.errors import RelposError
from relpos.runs.lock import is_locked, locked

pytestmark = pytest.mark.usefixtures("python")
HOLD = """
import os, sys, time
from pathlib import Path
from relpos.runs.lock import locked

with locked(Path(sys.argv[1])):
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


def holder(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """What was started, and the process that has the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_a_locked_run_is_not_taken_until_its_holder_is_killed(tmp_path):
    process, pid = holder(tmp_path)
    with locked(tmp_path, wait=False) as held:
        assert not held
    assert is_locked(tmp_path)
    os.kill(pid, signal.SIGKILL)
    process.wait()
    assert not is_locked(tmp_path)
    with locked(tmp_path) as held:
        assert held


def test_asking_for_a_lock_writes_nothing(tmp_path):
    assert not is_locked(tmp_path)
    assert not list(tmp_path.iterdir())
    with locked(tmp_path):
        pass
    assert not is_locked(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["claim.lock"]


def test_a_lock_in_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with (
        pytest.raises(
            RelposError, match=r"cannot make the run's folder .*file/run \(Not a directory\)"
        ),
        locked(tmp_path / "file" / "run"),
    ):
        pass


@pytest.mark.parametrize(
    "arguments",
    [["pretrain", "steps=2"], ["reproduce", "table=demo"], ["pretrain", "-m", "steps=2,3"]],
)
@pytest.mark.parametrize("below", ["", "runs"])
def test_a_root_for_runs_that_cannot_be_made_is_one_line(
    arguments, below, tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "file" / below))
    assert main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("relpos: ")
    assert str(tmp_path / "file") in line


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused_and_nothing_is_left_to_wait_for(
    number, tmp_path, monkeypatch
):
    """The lock that filelock takes instead stays when its holder is killed."""

    def missing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", missing)
        for _ in range(2):
            with (
                pytest.raises(
                    RelposError,
                    match=r"cannot make the run's folder .*\(its file system has no locks",
                ),
                locked(tmp_path),
            ):
                pass
    with locked(tmp_path, wait=False) as held:
        assert held


START = '{"pid": 7, "host": "there", "time": "2026-01-02T03:04:05+00:00"'


@pytest.mark.parametrize(
    ("record", "who"),
    [
        (f'{{"starts": [{START}}}]}}', "process 7 on there (since 2026-01-02T03:04:05+00:00)"),
        (f'{{"starts": [{START}, "ended": "died"}}]}}', "another process"),
        ('{"starts": [{"pid": 7}]}', "another process"),
        *((damaged, "another process") for damaged in ("[]", "{", "{}", "[" * 100_000)),
    ],
)
def test_who_waits_is_told_for_whom_where_the_record_says_so(record, who, tmp_path, capsys):
    process, _ = holder(tmp_path)
    (tmp_path / "record.json").write_text(record, encoding="utf-8")
    threading.Timer(0.5, process.kill).start()
    with locked(tmp_path):
        assert f"waiting for {who} to finish" in capsys.readouterr().err
    process.wait()

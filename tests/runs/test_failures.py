"""Whatever operation on a file fails, and why: one line that says so, no record that claims to be
running, and the same command goes on to the same bits. RELPOS_FULL=1 tries 16 places, else 4 spread
over them."""

import errno
import io
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from linked import link_runs
from pretend import STAGE, pretend, working
from relpos.cli import main
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.readers import sha256
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.runs.run import Run
from schemes import FULL

OVERRIDES = [
    "steps=4",
    "batch=4",
    "checkpoint_every=1",
    "log_every=1",
    "evaluations=2",
    "snapshots=[50]",
    "position=fixed",
]
ERRORS = (errno.EIO, errno.ENOSPC, errno.EINTR)
PLACES = 16 if FULL else 4


class Failing:
    """The k-th open, write, fsync or rename below a folder fails, once."""

    def __init__(self, folder: Path, place: int | None = None, error: int = errno.EIO) -> None:
        self.folder, self.place, self.error = str(folder), place, error
        self.seen: list[str] = []
        self.failed = ""

    def pass_(self, what: str, name: Any) -> None:
        path = os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else str(name)
        if not path.startswith(self.folder):
            return
        self.seen.append(f"{what} of {path}")
        if len(self.seen) == self.place:
            self.failed = self.seen[-1]
            raise OSError(self.error, os.strerror(self.error), *([path] if what != "write" else []))


class File:
    """An open file whose writes may fail."""

    def __init__(self, file: Any, failing: Failing) -> None:
        self.file, self.failing = file, failing

    def write(self, data: Any) -> Any:
        self.failing.pass_("write", self.file.name)
        return self.file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.file)


@contextmanager
def failing(folder: Path, place: int | None = None, error: int = errno.EIO) -> Iterator[Failing]:
    """Operations on files below the folder are counted, and one of them fails."""
    watch = Failing(folder, place, error)
    opened, fsync, replace = io.open, os.fsync, os.replace

    def opening(name: Any, mode: str = "r", *more: Any, **keys: Any) -> Any:
        watch.pass_("open", name)
        file = opened(name, mode, *more, **keys)
        below = isinstance(name, str | os.PathLike) and os.fspath(name).startswith(str(folder))
        return File(file, watch) if below and set(mode) & set("wax+") else file

    def flushing(number: int) -> None:
        watch.pass_("fsync", os.readlink(f"/proc/self/fd/{number}"))
        fsync(number)

    def renaming(source: Any, target: Any, **keys: Any) -> None:
        watch.pass_("rename", target)
        replace(source, target, **keys)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", opening)
        patch.setattr("builtins.open", opening)
        patch.setattr(os, "fsync", flushing)
        patch.setattr(os, "replace", renaming)
        yield watch


def result(run: Run) -> dict[str, str]:
    """The bits of what a run has made."""
    return {
        path.relative_to(run.path).as_posix(): sha256(path)
        for pattern in ("model/*", "snapshots/*", "predictions/*")
        for path in run.path.glob(pattern)
    }


def places(seen: list[str], most: int) -> list[int]:
    """Which operations fail: as many as `most`, spread over all, where a checkpoint's hundreds of
    writes count for few."""
    numbers = [
        number
        for number, what in enumerate(seen, 1)
        if not (what.startswith("write") and ".ckpt" in what) or not number % 50
    ]
    return (
        [numbers[i * len(numbers) // most] for i in range(most)] if most < len(numbers) else numbers
    )


def error_of(run: Run) -> str | None:
    """The message of the one error that executing the run may end with."""
    try:
        execute(run)
    except RelposError as error:
        return str(error)
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "share"), [("pretrain", 0.7), pytest.param("finetune", 0.3, marks=pytest.mark.full)]
)
def test_a_run_goes_on_after_any_operation_on_a_file_has_failed(
    stage, share, toy_runs, tmp_path, monkeypatch
):
    overrides = OVERRIDES
    if stage == "finetune":
        overrides = [
            "task=rte",
            "intermediate=none",
            "steps=3",
            "checkpoint_every=1",
            *(f"pretrain.{key}" for key in OVERRIDES[:2]),
        ]
        execute(plan(compose(stage, overrides)).inputs["start"])
    run = plan(compose(stage, overrides))
    with failing(run.path) as whole:
        execute(run)
    expected = result(run)
    for number, place in enumerate(places(whole.seen, round(share * PLACES))):
        root = tmp_path / f"{number}"
        monkeypatch.setenv("RELPOS_RUNS", str(root))
        link_runs(toy_runs, root)
        if stage == "finetune":
            (root / "pretrain").symlink_to(toy_runs / "pretrain")
        run = plan(compose(stage, overrides))
        with failing(run.path, place, ERRORS[number % 3]) as watch:
            message = error_of(run)
        assert watch.failed
        # Whatever is lost without harm, such as an older checkpoint that is not deleted, need not
        # be told.
        assert message is None or ("\n" not in message and str(run.path) in message), watch.failed
        # What could not be written may be the record itself.
        assert run.state != "running" or "record.json" in watch.failed, watch.failed
        execute(run)
        assert result(run) == expected, watch.failed
        assert not list(run.path.rglob(".*")), watch.failed


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_while_the_first_is_served_does_not_leave_a_run_running(
    first, toy_runs, monkeypatch
):
    run = pretend()
    update: Callable[..., None] = Run.update

    def updating(self: Run, **changes: Any) -> None:
        if changes.get("state") == "interrupted":
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)
        update(self, **changes)

    def asked(_: Run) -> None:
        os.kill(os.getpid(), first)

    monkeypatch.setattr(Run, "update", updating)
    monkeypatch.setattr(*working(STAGE, asked))
    before = {
        number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with pytest.raises(KeyboardInterrupt):
            execute(run)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert run.state == "interrupted"
    assert [start["ended"] for start in run.record["starts"]] == ["interrupted"]


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


def test_a_training_in_which_nothing_is_masked_is_refused(toy_runs, capsys):
    assert main(["pretrain", "steps=2", "batch=1", "recipe.masking=0.000001", "evaluations=1"]) == 1
    assert "in 2 steps no token was masked" in capsys.readouterr().err

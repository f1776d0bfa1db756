"""Executes a run: first its inputs, then, under its lock, the run itself from its last checkpoint.
The record says how."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from omegaconf import OmegaConf

from relpos.errors import RelposError, say
from relpos.files import check_locked, naming, opened, remove_left, write_text
from relpos.process import command, uninterrupted
from relpos.readers import sha256
from relpos.runs.cost import costs, hardware
from relpos.runs.distributed import ALONE, Place, launch, meet, place, shape
from relpos.runs.lock import locked
from relpos.runs.retries import CRASHES, Retries
from relpos.runs.run import Run, within_runs
from relpos.runs.shelf import LOG, LOGGED, SNAPSHOTS, snapshots

WAITS = 2.0
"""What the first of several processes says while it waits for the run's lock; then whether the run
is started."""
KEPT = (
    "model/*",
    f"{SNAPSHOTS}/*",
    "predictions/*",
    "dev/*",
    LOGGED,
    "tokenizer.*",
    "corpus/*",
    "glue/*/*",
    "results.json",
)
"""A finished run's files whose checksums are recorded. A store has a manifest of its own."""
PACKAGES = ("relpos", "torch", "pytorch-lightning", "numpy", "sentencepiece", "sentencex")


def execute(run: Run, wait: bool = True, log: bool = False, retries: Retries | None = None) -> Run:
    """Executes a run and what it needs, unless it is finished already; returns it.

    Args:
        run: the run wanted; its inputs are executed first.
        wait: if another process holds the run, whether to wait until that one is done; if not, the
            run is returned as it is.
        log: keep what is printed, and any traceback, in the run's folder instead of showing it.
        retries: a run that has used up its retries is left as it is; None: it is always tried.

    Raises:
        RelposError: an input is wrong; the record then says `failed` and why.
        KeyboardInterrupt: the process was asked to stop; a checkpoint was written first, and the
            same call goes on from there.
    """
    here = place() if run.shared else None
    # Where several processes share the run, all must hear of it in `_execute_with_others`: one that
    # returned would be waited for.
    if run.state == "finished" and not here:
        _name_missing_snapshots(run)
        return run
    # Without this run's retries: whoever waits for an input waits until it is there, or fails with
    # it.
    for needed in run.inputs.values():
        execute(needed)
    if here:
        _execute_with_others(run, here, wait, retries)
        return run
    with locked(run.path, wait) as held:
        if not held or not _is_to_start(run, retries):
            return run
        if shape(run) == ALONE:
            _execute_here(run, log)
            return run
    # The run's processes take the lock themselves. Starting them takes seconds: the lock was
    # checked first.
    with _printing_to(run.path / LOG) if log else nullcontext():
        launch(run, wait)
    return run


def _is_to_start(run: Run, retries: Retries | None) -> bool:
    """Marks a start whose process died. Returns whether to start the run now.

    Called while the lock is held: another process may have finished or tried the run before this
    one got the lock.

    The rule for retries is in retries.py. It is applied here, where every process of every engine
    passes before it starts a run.
    """
    record = run.record
    # this process has the lock, so the one that began is dead
    if record.state == "running" and record.starts:
        run.note_start(ended="died")
        if retries and retries.crashes(run.record, run.checkpoint) >= CRASHES:
            why = (
                f"its process died {CRASHES} times in a row without getting further; it may "
                f"need more memory than there is"
            )
            run.end("failed", error=why)
            return False
    return record.state != "finished" and not (retries and retries.are_used_up(record))


def _execute_with_others(run: Run, here: Place, wait: bool, retries: Retries | None) -> None:
    """Does this process's part of a run that several processes share. The first process locks the
    run, decides whether to start it, and tells the others: all start it or none does, even if the
    record changes while they arrive."""
    group = meet(here, run)
    if not group.first:
        while (message := group.broadcast()) == WAITS:
            pass
        if message:
            run.work()
        return
    # Others that hear nothing for long take it that this process hangs.
    with locked(run.path, wait, lambda: group.broadcast(WAITS)) as held:
        if group.broadcast(held and _is_to_start(run, retries)):
            _execute_here(run)


def _record_start(run: Run) -> None:
    """Writes `config.yaml` and the start into the record."""
    # Before the record: whoever sees a record finds the configuration beside it.
    config = {key: value for key, value in asdict(run.config).items() if value is not None}
    config.pop("logger", None)  # it may hold a key, and nobody reads it there
    write_text(run.path / "config.yaml", OmegaConf.to_yaml(config))
    run.begin(
        stage=run.stage,
        identity=run.identity,
        meaning=run.meaning,
        inputs={name: within_runs(needed.path) for name, needed in run.inputs.items()},
        command=command(),
        versions={name: _version(name) for name in PACKAGES}
        | {"python": platform.python_version()},
        commit=_commit(),
        hardware=hardware(),
        error=None,
        traceback=None,
    )


@cache
def _commit() -> str | None:
    """The commit of this checkout, with `+` if files differ from it; None for an installed
    package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    # `--no-optional-locks`: else git takes the index's lock, and a commit of the user's fails
    # meanwhile.
    git = ["git", "--no-optional-locks", "-C", str(root), "describe"]
    options = ["--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
    try:
        answer = subprocess.run([*git, *options], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def _execute_here(run: Run, log: bool = False) -> None:
    """Runs the stage and writes into the record how it ended."""
    started = time.perf_counter()
    with uninterrupted():
        before = len(run.record.starts)
        try:
            _record_start(run)
        except RelposError as error:
            # the record may be there all the same, and only its place in the folder not yet on disk
            with suppress(RelposError):
                if len(run.record.starts) > before:
                    _record_failure(run, error)
            raise
        remove_left(run.path)

    # including the starts that were interrupted, since a run goes on from there
    def seconds() -> float:
        return round(run.record.seconds + time.perf_counter() - started, 2)

    with _printing_to(run.path / LOG) if log else nullcontext():
        try:
            # Before the work: afterwards the network that it began with may be gone, and all would
            # be lost.
            cost = costs(run)
            with naming(run.path):
                metrics = run.work()
                files = [file for pattern in KEPT for file in run.path.glob(pattern)]
                sums = {
                    file.relative_to(run.path).as_posix(): sha256(file)
                    for file in sorted(files)
                    if file.is_file()
                }
        # Everything, SystemExit included: a start without an end would count as a death of the
        # process.
        except BaseException as error:
            _record_end(run, error, seconds, log)
            raise
    with uninterrupted():
        run.end("finished", metrics=metrics, seconds=seconds(), files=sums, **cost)
        # Last of all: until the record says so, a kill must find the checkpoint to go on from.
        shutil.rmtree(run.path / "checkpoint", ignore_errors=True)


@contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """Appends standard output and standard error to `path`.

    The file descriptors are redirected, not `sys.stdout`, so that output of C libraries and child
    processes goes there too.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # What Python still held back was flushed above: it belongs to the terminal, not to this log.
    originals = os.dup(1), os.dup(2)
    with opened(path, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in enumerate(originals, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _record_end(run: Run, error: BaseException, seconds: Callable[[], float], log: bool) -> None:
    """Writes into the record that the run was interrupted, or that it failed and why; however often
    the process is asked to stop meanwhile.

    Raises:
        KeyboardInterrupt: the run was interrupted; the end is written first.
        RelposError: the run's folder is gone.
    """
    try:
        with uninterrupted():
            check_locked(run.path)
            if log and isinstance(error, RelposError):
                say(f"relpos: {error}")
            elif log and not isinstance(error, KeyboardInterrupt):
                traceback.print_exc()
            # On a full disk the record cannot be written either; the first error is the one to
            # show.
            with suppress(RelposError):
                if isinstance(error, KeyboardInterrupt):
                    run.end("interrupted", seconds=seconds())
                else:
                    _record_failure(run, error)
    except KeyboardInterrupt as stop:
        if run.state == "running":  # the signal came before signals were held
            _record_end(run, stop, seconds, log)
        raise


def _record_failure(run: Run, error: BaseException) -> None:
    """Writes into the record that the run failed and why, with the end of the traceback unless the
    input was wrong."""
    last = None
    if not isinstance(error, RelposError):
        last = "".join(traceback.format_exception(error)[-3:])
    why = str(error).split("\n")[0] or type(error).__name__
    run.end("failed", error=why, traceback=last)


@cache
def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _name_missing_snapshots(run: Run) -> None:
    """Says so if the run is asked for snapshots that it did not keep; they are not part of its
    identity."""
    if missing := sorted({*run.config.snapshots} - {*snapshots(run.path)}):
        say(
            f"relpos: finished before, without snapshots at {', '.join(map(str, missing))} %: "
            f"delete {run.path} to train again"
        )

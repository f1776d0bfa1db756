"""Makes a run come true: its inputs first, then claim, go on where it stood, and a record that tells what happened."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from contextlib import nullcontext, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from relpos.errors import RelposError
from relpos.files import write_text
from relpos.runs.cost import costs
from relpos.runs.distributed import SHARED, Place, launch, meet, place, processes
from relpos.runs.lock import claim
from relpos.runs.log import LOG, logged
from relpos.runs.run import Run
from relpos.runs.stages import STAGES, TRAINING

PACKAGES = ("relpos", "torch", "pytorch-lightning", "numpy", "sentencepiece", "sentencex")


def execute(run: Run, wait: bool = True, log: bool = False, forgiven: int | None = None) -> Run:
    """Finds the run finished, or finishes it; then returns it.

    Args:
        run: what is wanted; its inputs come first.
        wait: where another process holds it, until that one is done; otherwise the run is returned as it is.
        log: keep what is printed, and any traceback, in the run's folder instead of showing it.
        forgiven: a run that has failed more often than this is left as it is; None: it is always tried.

    Raises:
        RelposError: an input is wrong; the record says `failed` and why.
        KeyboardInterrupt: asked to stop; a checkpoint was written first, and the same call goes on from there.
    """
    here = place() if run.stage in SHARED else None
    if run.state == "finished" and not here:
        _say_what_is_not_there(run)
        return run
    for needed in run.inputs.values():
        execute(needed)
    if here:
        _together(run, here, wait)
    elif processes(run) > 1:
        _apart(run, wait, log, forgiven)
    else:
        with claim(run.path, wait) as held:
            if held and _open(run, forgiven):  # another process may have done it, or tried, before we held it
                _carry_out(run, log)
    return run


def _open(run: Run, forgiven: int | None) -> bool:
    """Whether it is still to be done; asked by its holder."""
    record = run.record
    return record.get("state") != "finished" and (forgiven is None or len(record.get("failures", [])) <= forgiven)


def _together(run: Run, here: Place, wait: bool) -> None:
    """This process's part of a run that several share. The first one claims the run and writes; all do or leave it together,
    however the record changes while they come."""
    group = meet(here, run)
    with claim(run.path, wait) if group.first else nullcontext(False) as held:
        if not group.agreed(held and run.state != "finished"):
            return
        if group.first:
            _carry_out(run)
        else:
            STAGES[run.stage](run)


def _apart(run: Run, wait: bool, log: bool, forgiven: int | None) -> None:
    """Leaves the run to processes of its own, which claim it; looks first, because starting them takes seconds."""
    with claim(run.path, wait) as held:
        if not held or not _open(run, forgiven):
            return
    with logged(run.path / LOG) if log else nullcontext():
        launch(run, wait)


def _start(run: Run) -> None:
    write_text(run.path / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(run.config)))
    run.update(
        state="running",
        stage=run.stage,
        identity=run.identity,
        meaning=run.meaning,
        inputs={name: str(needed.path) for name, needed in run.inputs.items()},
        command=" ".join(["relpos", *sys.argv[1:]]) if sys.argv else "",
        versions={name: _version(name) for name in PACKAGES} | {"python": platform.python_version()},
        hardware=hardware(),
        error=None,
    )
    if run.stage not in TRAINING:
        run.started()


def _carry_out(run: Run, log: bool = False) -> None:
    _start(run)
    started = time.perf_counter()
    with logged(run.path / LOG) if log else nullcontext():
        try:
            metrics = STAGES[run.stage](run)
        except KeyboardInterrupt:
            run.update(state="interrupted")
            raise
        except BaseException as error:
            if log:
                _tell(error)
            _has_failed(run, error)
            raise
    seconds = run.record.get("seconds", 0.0) + time.perf_counter() - started
    run.update(state="finished", metrics=metrics, seconds=round(seconds, 2), **costs(run))


def _tell(error: BaseException) -> None:
    if isinstance(error, RelposError):
        print(f"relpos: {error}", file=sys.stderr)
    else:
        traceback.print_exc()


def _has_failed(run: Run, error: BaseException) -> None:
    """Says so in the record: when, why and, where it is no mistake of input, the traceback's end."""
    last = "".join(traceback.format_exception(error)[-3:]) if not isinstance(error, RelposError) else None
    why = str(error).split("\n")[0] or type(error).__name__
    with suppress(RelposError):  # on a full disk the record cannot be written either; the first error is the one to show
        run.fail(why, traceback=last)


def hardware() -> dict[str, Any]:
    """Processor and cores, and the GPUs where there are any."""
    processor = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            processor = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), processor)
    except OSError:
        pass
    found = {"processor": processor, "cores": os.cpu_count()}
    gpus = [
        line.partition(":")[2].strip()
        for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith("Model:")
    ]
    return found | {"gpus": gpus} if gpus else found


@cache
def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _say_what_is_not_there(run: Run) -> None:
    wanted = {int(share) for share in run.config.get("snapshots") or ()}
    kept = {int(file.stem) for file in (run.path / "snapshots").glob("*.safetensors")}
    if wanted - kept:
        missing = ", ".join(map(str, sorted(wanted - kept)))
        print(f"relpos: finished before, without snapshots at {missing} %: delete {run.path} to train again", file=sys.stderr)

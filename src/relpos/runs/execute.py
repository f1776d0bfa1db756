"""Makes a run come true: its inputs first, then claim, go on where it stood, and a record that tells what happened."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from omegaconf import OmegaConf

from relpos.errors import RelposError
from relpos.files import write_text
from relpos.runs.claim import claim
from relpos.runs.run import Run
from relpos.runs.stages import STAGES

PACKAGES = ("relpos", "torch", "pytorch-lightning", "numpy", "sentencepiece", "sentencex")


def execute(run: Run, wait: bool = True) -> Run:
    """Finds the run finished, or finishes it; then returns it.

    Args:
        run: what is wanted; its inputs come first.
        wait: where another process holds it, until that one is done; otherwise the run is returned as it is.

    Raises:
        RelposError: an input is wrong; the record says `failed` and why.
        KeyboardInterrupt: asked to stop; a checkpoint was written first, and the same call goes on from there.
    """
    if run.state == "finished":
        _say_what_is_not_there(run)
        return run
    for needed in run.inputs.values():
        execute(needed)
    with claim(run.path, wait) as held:
        if held and run.state != "finished":  # another process may have done it while we waited
            _start(run)
            _carry_out(run)
    return run


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


def _carry_out(run: Run) -> None:
    started = time.perf_counter()
    try:
        metrics = STAGES[run.stage](run)
    except KeyboardInterrupt:
        run.update(state="interrupted")
        raise
    except BaseException as error:
        last = "".join(traceback.format_exception(error)[-3:]) if not isinstance(error, RelposError) else None
        _try_update(run, state="failed", error=str(error).split("\n")[0], traceback=last)
        raise
    seconds = run.record.get("seconds", 0.0) + time.perf_counter() - started
    run.update(state="finished", metrics=metrics, seconds=round(seconds, 2))


def _try_update(run: Run, **changes: Any) -> None:
    """On a full disk the record cannot be written either; the first error is the one to show."""
    with suppress(RelposError):
        run.update(**changes)


def start_entry(from_step: int, threads: int) -> dict[str, Any]:
    """What the record keeps of each start of a run."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"time": now, "pid": os.getpid(), "host": socket.gethostname(), "from_step": from_step, "threads": threads}


def hardware() -> dict[str, Any]:
    """Processor and cores, and the GPUs where there are any."""
    processor = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            processor = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), processor)
    except OSError:
        pass
    return {"processor": processor, "cores": os.cpu_count()}


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

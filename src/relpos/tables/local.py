"""The local engine: worker processes on a pool of devices or CPU slots, all taking runs from one job.

It divides the cores, starts a worker again that died, and passes Ctrl-C on. A run of several devices takes processes of its own,
which its worker starts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from relpos.errors import RelposError
from relpos.runs.claim import claim
from relpos.runs.processes import cores
from relpos.runs.run import Run
from relpos.tables.jobs import Job, Standing

DEATHS = 3
"""So many workers may die over one try of a run; then that try has failed."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Local:
    """`engine=local`: this machine.

    Args:
        workers: processes side by side; None: `runs_per_device` on each device, or one a core where there is no GPU.
        threads: CPU threads of each; None: the cores divided among them.
        devices: numbers of the GPUs to use; None: all that there are; []: none.
        runs_per_device: runs side by side on one GPU.
    """

    workers: int | None = None
    threads: int | None = None
    devices: list[int] | None = None
    runs_per_device: int = 1
    watch: bool = True

    def start(self, job: Job, pending: list[Run], folder: Path) -> LocalCrew:
        """As many workers as there are places and runs."""
        job.write(folder / "job.json")
        places = self.places(pending)
        threads = self.threads or max(1, cores() // len(places))
        return LocalCrew(folder, [_environment(place, threads) for place in places])

    def places(self, pending: list[Run]) -> list[str | None]:
        """For each worker the GPUs that it sees; None where it works on the CPU.

        Where a run takes several devices, a worker sees as many.
        """
        gpus = _gpus() if self.devices is None else [str(number) for number in self.devices]
        speeds = [run.config.get("speed", {}) for run in pending]
        if all(speed.get("accelerator") == "cpu" for speed in speeds):
            gpus = []
        size = max(int(speed.get("devices", 1)) for speed in speeds)
        if not gpus:
            free: list[str | None] = [None] * (self.workers or max(1, cores() // size))
        else:
            shares = [",".join(gpus[i : i + size]) for i in range(0, len(gpus) - size + 1, size)]
            if not shares:
                raise RelposError(f"speed.devices={size}: engine=local has {len(gpus)} GPUs")
            free = [share for _ in range(self.runs_per_device) for share in shares]
            free = [free[i % len(free)] for i in range(self.workers or len(free))]
        return free[: len(pending)]


def _gpus() -> list[str]:
    """Names of the GPUs, without loading torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name.strip() not in ("", "-1")]
    found = Path("/proc/driver/nvidia/gpus")
    return [str(number) for number, _ in enumerate(found.iterdir())] if found.is_dir() else []


def _environment(gpus: str | None, threads: int) -> dict[str, str]:
    """OMP_NUM_THREADS, where it is set, decides."""
    own = {name: os.environ.get(name, os.environ.get("OMP_NUM_THREADS", str(threads))) for name in THREADS}
    return os.environ | own | ({} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus})


class LocalCrew:
    """Worker processes, each tethered to this one by a pipe that is its standard input.

    Args:
        folder: holds `job.json`; `worker-1.log` … are written there.
        environments: of each worker.
    """

    def __init__(self, folder: Path, environments: list[dict[str, str]]) -> None:
        self.folder, self.environments = folder, environments
        self.deaths: Counter[str] = Counter()
        self.logs: list[IO[bytes]] = [(folder / f"worker-{number + 1}.log").open("ab") for number in range(len(environments))]
        self.workers = [self._start(place) for place in range(len(environments))]

    def _start(self, place: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "relpos.tables.worker", str(self.folder / "job.json"), "--tethered"],
            stdin=subprocess.PIPE,
            stdout=self.logs[place],
            stderr=self.logs[place],
            env=self.environments[place],
            process_group=0,  # Ctrl-C reaches the launcher alone, which passes it on once
        )

    def tend(self, standing: Standing) -> None:
        """Starts a worker again that ended before its time; a run over which several died has failed.

        Raises:
            RelposError: workers die although they hold no run.
        """
        for place, worker in enumerate(self.workers):
            if worker.poll() in (None, 0):
                continue
            run = next((run for run in standing.running if holder(run) == worker.pid), None)
            key = run.identity if run else ""
            self.deaths[key] += 1
            if self.deaths[key] >= DEATHS:
                if run is None:
                    raise RelposError(f"workers end with {_status(worker.returncode)}: see {self.logs[place].name}")
                self.deaths[key] = 0
                give_up(run, f"its worker ended {DEATHS} times with {_status(worker.returncode)}")
            self.workers[place] = self._start(place)

    def dismiss(self) -> None:
        """Closes the pipes and waits; a second Ctrl-C kills."""
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.close()
        try:
            for worker in self.workers:
                worker.wait()
        finally:
            for worker in self.workers:
                worker.kill()
            for log in self.logs:
                log.close()


def holder(run: Run) -> int | None:
    """The process that claimed the run last."""
    try:
        return int(json.loads((run.path / "claim.json").read_text(encoding="utf-8"))["pid"])
    except (OSError, ValueError, KeyError):
        return None


def _status(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"status {code}"


def give_up(run: Run, why: str) -> None:
    """Writes into a record that says `running`, and that nobody holds any more, that this try has failed."""
    with claim(run.path, wait=False) as held:
        if held and run.state == "running":
            run.fail(why)

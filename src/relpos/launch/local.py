"""The local engine: worker processes on a pool of devices or CPU slots, all taking runs from one job.

It divides the cores, starts a worker again that died, and passes Ctrl-C on. A run of several devices takes processes of its own,
which its worker starts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from relpos.errors import RelposError
from relpos.launch.jobs import Job, Standing
from relpos.launch.worker import barred, held
from relpos.process import cores, thread_variables
from relpos.ranges import Count, Natural
from relpos.runs.lock import claim
from relpos.runs.run import Run

DEATHS = 3
"""So many workers may die over one try of a run, then that try has failed; or over none, then the launch has."""


@dataclass(frozen=True)
class Local:
    """`engine=local`: this machine.

    Args:
        workers: processes side by side; None: `runs_per_device` on each device, or one a core where there is no GPU.
        threads: CPU threads of each; None: the cores divided among them.
        devices: numbers of the GPUs to use; None: all that there are; []: none.
        runs_per_device: runs side by side on one GPU.

    Raises:
        RelposError: an argument is of the wrong kind.
    """

    workers: Count | None = None
    threads: Count | None = None
    devices: list[Natural] | None = None
    runs_per_device: Count = 1
    watch: bool = True

    def start(self, job: Job, pending: list[Run], folder: Path) -> LocalCrew:
        """As many workers as there are places and runs."""
        places = self.places(pending)
        threads = self.threads or max(1, cores() // len(places))
        job.write(folder / "job.json")
        return LocalCrew(folder, [_environment("" if self.devices == [] else place, threads) for place in places])

    def places(self, pending: list[Run]) -> list[str | None]:
        """For each worker the GPUs that it sees; None where it works on the CPU.

        Where a run takes several devices, a worker sees as many.
        """
        gpus = _gpus() if self.devices is None else _chosen(self.devices)
        speeds = [run.config["speed"] for run in pending if "speed" in run.config]  # others do not ask for a GPU
        if all(speed.get("accelerator") == "cpu" for speed in speeds):
            gpus = []
        size = max((int(speed.get("devices", 1)) for speed in speeds), default=1)
        if not gpus:
            free: list[str | None] = [None] * (self.workers or max(1, cores() // size))
        else:
            shares = [",".join(gpus[i : i + size]) for i in range(0, len(gpus) - size + 1, size)]
            if not shares:
                raise RelposError(f"speed.devices={size}: engine=local has {len(gpus)} GPUs")
            free = [share for _ in range(self.runs_per_device) for share in shares]
            free = [free[i % len(free)] for i in range(self.workers or len(free))]
        return free[: len(pending)]


def _visible() -> list[str] | None:
    """Names of the GPUs that CUDA_VISIBLE_DEVICES leaves; None where it is not set."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if names is None else [name for name in names.split(",") if name.strip() not in ("", "-1")]


def _chosen(devices: list[int]) -> list[str]:
    """Names of the GPUs with these numbers; numbers count those that are visible, as they do everywhere in CUDA."""
    visible = _visible()
    if visible is None:
        return [str(number) for number in devices]
    if max(devices, default=-1) >= len(visible):
        raise RelposError(f"engine.devices={devices}: CUDA_VISIBLE_DEVICES={','.join(visible)} leaves {len(visible)} GPUs")
    return [visible[number] for number in devices]


def _gpus() -> list[str]:
    """Names of the GPUs, without loading torch."""
    visible = _visible()
    if visible is not None:
        return visible
    found = Path("/proc/driver/nvidia/gpus")
    return [str(number) for number, _ in enumerate(found.iterdir())] if found.is_dir() else []


def _environment(gpus: str | None, threads: int) -> dict[str, str]:
    """What a worker process is started with."""
    return os.environ | thread_variables(threads) | ({} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus})


class LocalCrew:
    """Worker processes, each tethered to this one by a pipe that is its standard input.

    Args:
        folder: holds `job.json`; `worker-1.log` … are written there.
        environments: of each worker.
    """

    def __init__(self, folder: Path, environments: list[dict[str, str]]) -> None:
        self.folder, self.environments = folder, environments
        self.deaths: defaultdict[str, list[str]] = defaultdict(list)
        """Run (or "" for none) → how the workers ended that died over it."""
        self.settled = 0
        self.logs: list[IO[bytes]] = [(folder / f"worker-{number + 1}.log").open("ab") for number in range(len(environments))]
        self.workers = [self._start(place) for place in range(len(environments))]

    def _start(self, place: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "relpos.launch.worker", str(self.folder / "job.json"), "--tethered"],
            stdin=subprocess.PIPE,
            stdout=self.logs[place],
            stderr=self.logs[place],
            env=self.environments[place],
            process_group=0,  # Ctrl-C reaches the launcher alone, which passes it on once
        )

    def tend(self, standing: Standing) -> None:
        """Starts a worker again that ended before its time; a run over which several died has failed.

        Raises:
            RelposError: workers end although they are at no run, and nothing is settled in between.
        """
        self._forget(standing)
        codes = [worker.poll() for worker in self.workers]
        ended = [place for place, code in enumerate(codes) if code not in (None, 0)]
        if all(code == 0 for code in codes) and standing.open():  # read after the codes: what workers did last is in it
            ended = [0]  # what was settled for them is no longer
        for place in ended:
            self._count(place, standing)
        self._give_up(standing)
        for place in ended:
            self.workers[place] = self._start(place)

    def _forget(self, standing: Standing) -> None:
        """Deaths over no run, once something has settled since."""
        settled = len(standing.finished) + len(standing.failed)
        if settled > self.settled:
            self.settled = settled
            self.deaths.pop("", None)

    def _count(self, place: int, standing: Standing) -> None:
        worker = self.workers[place]
        note = held(self.folder, worker.pid)
        identity = note.read_text(encoding="utf-8") if note.exists() else ""
        note.unlink(missing_ok=True)  # the number may come again
        key = identity if identity in standing.unsettled else ""
        self.deaths[key].append(_status(worker.returncode))
        if not key and len(self.deaths[key]) >= DEATHS:
            raise RelposError(f"workers end with {self.deaths[key][-1]}: see {self.logs[place].name}")

    def _give_up(self, standing: Standing) -> None:
        """Writes of the runs over which too many died that they have failed. One that another worker has taken meanwhile is
        barred, so that nobody takes it after that one until this is written."""
        for key, ends in list(self.deaths.items()):
            if not key or len(ends) < DEATHS:
                continue
            run = standing.unsettled.get(key)
            if run is None or give_up(run, f"its worker ended {len(ends)} times with {ends[-1]}"):
                del self.deaths[key]
                barred(self.folder, key).unlink(missing_ok=True)
            else:
                barred(self.folder, key).touch()

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


def _status(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"status {code}"


def give_up(run: Run, why: str) -> bool:
    """Writes into the record of a run that is under way, and that nobody holds any more, that this try has failed.

    False where somebody holds it.
    """
    with claim(run.path, wait=False) as free:
        if free and run.state not in ("finished", "failed"):
            run.fail(why)
        return free

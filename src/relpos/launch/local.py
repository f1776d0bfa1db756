"""The local engine: worker processes on a pool of devices or CPU slots, all taking runs from one job.

It divides the cores among the workers, restarts a worker that died, and passes Ctrl-C on. A run of several devices has one process
for each; its worker starts them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from relpos.errors import RelposError
from relpos.files import opened
from relpos.launch.engine import Engine, Guard, Item, Result
from relpos.launch.jobs import Standing
from relpos.pool import side_by_side
from relpos.process import cores, end, exit_status, started, thread_variables
from relpos.ranges import Count, Threads
from relpos.runs.run import Run


@dataclass(frozen=True)
class Local(Engine):
    """`engine=local`: this machine, with the GPUs that CUDA_VISIBLE_DEVICES leaves.

    Args:
        workers: processes side by side; None: `runs_per_device` on each GPU, or one per core where there is no GPU.
        threads: CPU threads of each worker; None: the cores divided among them.
        runs_per_device: runs side by side on one GPU.
    """

    workers: Count | None = None
    threads: Threads | None = None
    runs_per_device: Count = 1

    def start(self, standing: Standing, folder: Path) -> LocalWorkers:
        """Starts one worker for each of `places`."""
        environments = self._environments(self.places(standing.open()))
        standing.job.write(folder / "job.json")
        return LocalWorkers(standing, folder, environments)

    def each(
        self, function: Callable[[Item], Result], items: Sequence[Item], title: str, accelerator: str = "auto"
    ) -> list[Result]:
        """Applies a function in as many processes as there are workers, each with a worker's threads and GPU."""
        environments = self._environments(self._slots(accelerator == "cpu", size=1)[: len(items)])
        if len(environments) < 2:
            return super().each(function, items, title, accelerator)
        return side_by_side(function, items, environments, title)

    def _environments(self, places: Sequence[str | None]) -> list[dict[str, str]]:
        """The environment variables of the worker at each place."""
        threads = thread_variables(self.threads or max(1, cores() // max(1, len(places))), asked=self.threads is not None)
        return [os.environ | threads | ({} if place is None else {"CUDA_VISIBLE_DEVICES": place}) for place in places]

    def places(self, pending: list[Run]) -> list[str | None]:
        """One entry per worker: the GPUs that it sees, as many as a run takes; None where it works on the CPU. At most one per run.

        Raises:
            RelposError: there are fewer GPUs than a run takes.
        """
        speeds = [run.config["speed"] for run in pending if "speed" in run.config]  # other stages use no GPU
        size = max((int(speed.get("devices", 1)) for speed in speeds), default=1)
        return self._slots(all(speed.get("accelerator") == "cpu" for speed in speeds), size)[: len(pending)]

    def _slots(self, on_cpu: bool, size: int) -> list[str | None]:
        """One entry per worker: the GPUs that it sees, `size` of them; None where it works on the CPU."""
        gpus = _gpus()
        if on_cpu or not gpus:
            return [None] * (self.workers or max(1, cores() // size))
        # GPUs that are left over are too few for a run, and stay idle.
        shares = [",".join(gpus[i : i + size]) for i in range(0, len(gpus) - size + 1, size)]
        if not shares:
            raise RelposError(f"speed.devices={size}: engine=local has {len(gpus)} GPUs")
        # Round by round, so that few workers spread over all GPUs.
        slots = [share for _ in range(self.runs_per_device) for share in shares]
        return [slots[i % len(slots)] for i in range(self.workers or len(slots))]  # more workers than slots: they share them


def _gpus() -> list[str]:
    """Names of the GPUs that CUDA_VISIBLE_DEVICES leaves, or of all where it is not set, without loading torch."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    if names is not None:
        return [name for name in names.split(",") if name.strip() not in ("", "-1")]
    driver = Path("/proc/driver/nvidia/gpus")
    return [str(number) for number, _ in enumerate(driver.iterdir())] if driver.is_dir() else []


class LocalWorkers:
    """Worker processes, each tethered to this one by a pipe that is its standard input; their logs lie in `folder`."""

    def __init__(self, standing: Standing, folder: Path, environments: list[dict[str, str]]) -> None:
        self.standing, self.folder, self.environments = standing, folder, environments
        self.guard = Guard(standing)
        self.logs: list[IO[bytes]] = [opened(folder / f"worker-{number + 1}.log", "ab") for number in range(len(environments))]
        self.processes = [self._start(place) for place in range(len(environments))]

    def _start(self, place: int) -> subprocess.Popen[bytes]:
        self.guard.begin(str(place))
        return started(
            "relpos.launch.worker",
            str(self.folder / "job.json"),
            environment=self.environments[place],
            stdout=self.logs[place],
            stderr=self.logs[place],
            process_group=0,  # Ctrl-C reaches the launcher alone, which passes it on once
        )

    def poll(self) -> None:
        """Restarts workers that ended early. The deaths are counted in `execute`, run by run, not here.

        Raises:
            RelposError: workers end without having started a run.
        """
        codes = [process.poll() for process in self.processes]
        ended = [place for place, code in enumerate(codes) if code not in (None, 0)]
        if not ended and any(code is None for code in codes):
            return
        left = self.standing.open()  # read after the exit codes, so that the records have what the workers did last
        if not ended and left:  # all workers ended normally and runs are left: the folder of a finished run was deleted
            ended = [0]
        for place in ended:
            if self.guard.end(str(place)):
                raise RelposError(f"workers end with {exit_status(codes[place])}: see {self.logs[place].name}")
            self.processes[place] = self._start(place)

    def shutdown(self) -> None:
        """Closes the pipes and waits, ten minutes at most; a second Ctrl-C kills."""
        # All pipes before the first wait, so that the workers write their checkpoints at the same time.
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
        try:
            for process in self.processes:
                end(process)
        finally:
            for process in self.processes:
                process.kill()
            for log in self.logs:
                log.close()

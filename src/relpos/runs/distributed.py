"""A run that several processes share: which process this is, and how the others are started.

The processes are never started by executing the command line again, which would repeat a whole
sweep in each. Either torchrun or srun has started this process as one of several, or `launch`
starts `python -m relpos.runs.rank` for one run.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from relpos.config.schema import Speed
from relpos.errors import RelposError
from relpos.process import ask_to_end, cores, exit_status, handling, number_in, omp_threads, started
from relpos.runs.lock import locked
from relpos.runs.run import Run

if TYPE_CHECKING:
    from relpos.train.group import Group

MOST = 100_000
"""Processes that a launcher may say to have started; each of them keeps a list of all."""
ALONE = (1, 1)
"""Shape of a run of one process."""
PAUSE = 0.05
"""Seconds between two looks at the processes."""
PATIENCE = 30.0
"""Seconds that the other processes have to end by themselves when one has ended badly; then they
are killed."""
STOPPING = 600.0
"""Seconds that processes have for their step and a checkpoint when they are asked to stop."""


class Place(NamedTuple):
    """This process among those that share a run."""

    rank: int
    world: int
    local: int


def shape(run: Run) -> tuple[int, int]:
    """The nodes that a run asks for, and the processes on each of them: `speed.nodes` and
    `speed.devices`."""
    speed = run.config.speed
    return (speed.nodes, speed.devices) if speed and run.shared else ALONE


def place(environment: Mapping[str, str] = os.environ) -> Place | None:
    """Where torchrun, srun or `launch` has put this process; None where it stands alone.

    SLURM_NTASKS would not do: a batch script has it too. Only a process that srun has started has
    SLURM_STEP_NUM_TASKS.

    Raises:
        RelposError: a variable holds no number, or one that does not fit the others.
    """
    for size, number, local in (
        ("WORLD_SIZE", "RANK", "LOCAL_RANK"),
        ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID"),
    ):
        world = number_in(size, 1, environment, MOST)
        rank = number_in(number, -1, environment)
        if world > 1 and rank >= world:
            raise RelposError(f"{number}={rank}: processes are counted from 0, and {size}={world}")
        if world > 1 and rank >= 0:
            return Place(rank, world, number_in(local, 0, environment))
    return None


def meet(here: Place, run: Run) -> Group:
    """Joins the other processes.

    Raises:
        RelposError: there are not as many as the run asks for.
    """
    nodes, devices = shape(run)
    wanted = nodes * devices
    if wanted not in (1, here.world):
        raise RelposError(
            f"speed.devices={devices} speed.nodes={nodes} ask for {wanted} processes, but "
            f"{here.world} were started; leave both out to take what is there"
        )
    from relpos.train.group import join

    # Not Lightning's own object: it refuses `srun -n 4`, and takes one port for all steps of a job.
    if not os.getenv("MASTER_ADDR"):
        from lightning_fabric.plugins.environments import SLURMEnvironment

        names = os.getenv("SLURM_STEP_NODELIST") or os.getenv("SLURM_NODELIST") or "127.0.0.1"
        os.environ["MASTER_ADDR"] = SLURMEnvironment.resolve_root_node_address(names)
    if not os.getenv("MASTER_PORT"):
        number = number_in("SLURM_JOB_ID", 0) + 101 * (number_in("SLURM_STEP_ID", 0) % 10_000)
        os.environ["MASTER_PORT"] = str(15_000 + number % 10_000)
    return join(*here, (run.config.speed or Speed()).accelerator)


def launch(run: Run, wait: bool = True) -> None:
    """Executes a run in processes of its own and returns when it is finished.

    The processes hold the run's lock themselves, so that it is held as long as any of them can
    write. A pipe ties them to this
    process: when it closes, or this process is gone, they write a checkpoint and end. On several
    nodes srun starts them, and passes the pipe on.

    Raises:
        RelposError: the run failed, or asks for several nodes, and there are none.
        KeyboardInterrupt: asked to stop; the processes have written a checkpoint.
    """
    nodes, devices = shape(run)
    if nodes > 1 and "SLURM_JOB_ID" not in os.environ:
        raise RelposError(
            f"speed.nodes={nodes}: start the command on every node with torchrun or srun; a table "
            f"does it with engine=slurm"
        )
    content = json.dumps({"run": asdict(run), "wait": wait}).encode() + b"\n"
    budget = omp_threads() or cores()  # a table's engine sets the variable for each worker
    # Divided among the processes: each with all cores would be slower than one alone.
    threads = (run.config.speed or Speed()).threads or max(1, budget // devices)
    limits = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    with reserved_port() as port:
        if nodes > 1:
            # A process that ends badly ends all: the others would wait for it, and srun for them.
            before = (
                "srun",
                "--unbuffered",
                f"--nodes={nodes}",
                f"--ntasks-per-node={devices}",
                f"--cpus-per-task={threads}",
                "--kill-on-bad-exit=1",
            )
            ranks = [_started(limits, before)]
        else:
            meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": devices}
            # Gloo would look up the host's own name, which many laptops and containers cannot
            # resolve.
            if sys.platform == "linux":
                meeting["GLOO_SOCKET_IFNAME"] = "lo"
            ranks = [
                _started(limits | meeting | {"RANK": rank, "LOCAL_RANK": rank})
                for rank in range(devices)
            ]
        with _noting_stops(ranks) as stopped:
            for process in ranks:
                assert process.stdin is not None
                with suppress(BrokenPipeError):  # it has died, which `_watch` sees
                    process.stdin.write(content)
                    process.stdin.flush()
            codes, hung = _watch(ranks, stopped)
    if run.state == "finished":
        return
    if stopped:
        _settle(run, "running", "interrupted")  # where processes had to be killed
        raise KeyboardInterrupt(stopped[0])
    if wait and run.state == "interrupted":  # somebody has stopped the processes and not this one
        raise KeyboardInterrupt(signal.SIGTERM)
    if not run.path.is_dir():
        raise RelposError(
            f"{run.path} is gone: it was deleted while the run was under way; give "
            f"the same command again"
        )
    # A process that was asked to stop, or that found the run held by others, ends with 0.
    if any(codes):
        how = {rank: f"{rank} with {exit_status(code)}" for rank, code in enumerate(codes) if code}
        how |= {rank: f"{rank} hung and was killed" for rank in hung}
        why = f"its processes ended: {', '.join(how.values())}"
        _settle(run, run.state, "failed", error=why)
        # the record has no error where another process has taken up the run since
        error = run.record.error or why
        # The first process has recorded that another one was lost; this process knows how.
        lost = [text for rank, text in how.items() if codes[rank] < 0]
        if lost and error != why:
            error += f"; process {', '.join(lost)}"
        raise RelposError(error)


def _settle(run: Run, before: str, state: str, **facts: str) -> None:
    """Writes into the record how the run ended where its first process could not do so."""
    if before != state and run.path.is_dir():
        with locked(run.path, wait=False) as held:
            if held and run.state == before:
                run.end(state, **facts)


def _started(
    variables: Mapping[str, object],
    before: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    """A process of the run with these environment variables; or srun, which starts them on the nodes
    of the Slurm job that this process belongs to."""
    # Output goes to stderr, since stdout has the result. A process group of its own keeps Ctrl-C
    # from arriving twice.
    return started(
        "relpos.runs.rank",
        environment=os.environ | {name: str(value) for name, value in variables.items()},
        before=before,
        stdout=2,
        process_group=0,
    )


def _watch(ranks: list[subprocess.Popen[bytes]], stopped: list[int]) -> tuple[list[int], set[int]]:
    """Waits for all processes; returns their exit codes, and the numbers of those that had to be
    killed.

    Their pipes are closed where this process is asked to stop. When one ends badly, the others are
    killed after `PATIENCE`; all are after `STOPPING` where they were asked to stop, and at once
    after a second Ctrl-C.
    """
    deadline, killed = math.inf, set[int]()
    while any(process.poll() is None for process in ranks):
        # The others wait for a message of the one that is gone.
        if any(process.poll() for process in ranks):
            deadline = min(deadline, time.monotonic() + PATIENCE)
        if stopped:
            # No signal: srun would kill its processes at SIGTERM.
            for process in ranks:
                if process.stdin and not process.stdin.closed:
                    ask_to_end(process)
            deadline = min(
                deadline,
                time.monotonic() + (0 if signal.SIGINT in stopped[1:] else STOPPING),
            )
        if time.monotonic() >= deadline:
            killed |= {rank for rank, process in enumerate(ranks) if process.poll() is None}
            for process in ranks:
                process.kill()
        time.sleep(PAUSE)
    return [process.wait() for process in ranks], killed


@contextmanager
def _noting_stops(ranks: list[subprocess.Popen[bytes]]) -> Iterator[list[int]]:
    """Yields the list of signals of `STOPS` received. Kills what is left on leaving."""
    stopped: list[int] = []
    try:
        with handling(lambda number, _: stopped.append(number)):
            yield stopped
    finally:
        for process in ranks:
            # The pipe is the tether: its end tells a process that nobody waits for it any more.
            ask_to_end(process)
            if process.poll() is None:
                process.kill()


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port of this machine that the system gives to nobody else meanwhile.

    The processes that meet there take seconds to start. Until then a socket that does not listen
    holds the port; a process that names this port and allows its reuse, as torch does, can listen
    there all the same.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])

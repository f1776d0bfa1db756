"""What every process that relpos starts needs: cores, thread variables, stop signals, and the pipe
that ties it to its parent."""

from __future__ import annotations

import math
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from relpos.errors import RelposError, say

STOPS = (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that ask a process to stop at the next step; of several, the first of these counts. A
cluster sends SIGUSR2 before a preemption or the time limit, a terminal that is closed SIGHUP."""
Handler = Callable[[int, FrameType | None], object]
Process = subprocess.Popen[bytes]
TOGETHER = 1.0
"""Seconds in which several signals count as one."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables from which numerical libraries take their number of threads; they read them
once, when they are loaded."""

ASKED = "RELPOS_THREADS_ASKED"
"""Environment variable of workers whose threads the user has set: a run that goes on then takes
them, not those of its record."""

GPUS = Path("/proc/driver/nvidia/gpus")
"""Where NVIDIA's driver lists the GPUs."""
VISIBLE = "CUDA_VISIBLE_DEVICES"

SAFE_PATH = "PYTHONSAFEPATH"
"""Environment variable of Python: the working directory is no place of modules."""

COMMAND = "RELPOS_COMMAND"
"""Environment variable with the command that the user has typed, `without_keys`. Workers, ranks
and jobs of a cluster inherit it."""

KEYS = re.compile(
    r"([+]*(?:(?:\w+\.)?logger(?:\.(?!_target_=)[^=]*|(?=\s*=\s*\{))"
    r"|hydra\.sweeper\.(?:storage|params(?=.*logger)[^=]*)))"
    r"=(?!\\*\$\{[\w.:]*\}['\"\]]*$).*",
    re.DOTALL,
)
"""An override whose value may be a key or a password; a reference to one, as `${oc.env:KEY}`, is
no secret."""


def started(
    module: str,
    *arguments: str,
    environment: Mapping[str, str] = os.environ,
    before: Sequence[str] = (),
    **options: Any,
) -> Process:
    """A process of ours, with a pipe to its standard input.

    No file of the working directory is a module of that process, as `python -m` would have it.

    Args:
        module: what it executes.
        arguments: of the module.
        environment: its variables.
        before: a command that starts it, such as srun.
        options: further arguments of Popen.
    """
    return subprocess.Popen(
        [*before, sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        env={**environment, SAFE_PATH: "1"},
        **options,
    )


def command() -> str:
    """What the user has typed to start this process, or the one that started it, `without_keys`:
    `relpos …`, or a script that calls relpos."""
    return os.getenv(COMMAND) or shlex.join(without_keys(sys.argv))


def without_keys(words: Iterable[str]) -> list[str]:
    """Words of a command as they may be written down: what a logger is told may be a key."""
    return [KEYS.sub(r"\1=…", word) for word in words]


def number_in(
    name: str,
    default: int,
    environment: Mapping[str, str] = os.environ,
    most: int = 10**18,
) -> int:
    """The whole number in an environment variable; `default` where it is not set, or empty.

    Raises:
        RelposError: it holds something else, or more than `most`.
    """
    value = environment.get(name, "").strip()
    if value and not (re.fullmatch(r"\d{1,18}", value) and int(value) <= most):
        up_to = ""
        if most < 10**18:
            up_to = f" up to {most:,}"
        expected = f"a whole number{up_to} is expected in this environment variable, or none"
        raise RelposError(f"{name}={value}: {expected}")
    return int(value or default)


def omp_threads() -> int | None:
    """The number of threads in OMP_NUM_THREADS, of a list the first, which is that of the outermost
    level; None where none is set.

    Raises:
        RelposError: it is no number.
    """
    first = os.getenv("OMP_NUM_THREADS", "").partition(",")[0]
    return number_in("OMP_NUM_THREADS", 0, {"OMP_NUM_THREADS": first}) or None


def ask_to_end(process: Process) -> None:
    """Closes the pipe of a process of ours, which asks it to end, also where somebody has stopped
    it (SIGSTOP)."""
    assert process.stdin
    with suppress(BrokenPipeError):  # it has died, and something that it was to read is left
        process.stdin.close()
    process.send_signal(signal.SIGCONT)  # nothing where the process has ended


def end(process: Process, seconds: float = 600) -> int:
    """Waits until a process of ours that has been asked to end has done so; one that hangs is
    killed after so many seconds. Returns its exit status."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        late = f"has not ended {seconds:.0f} seconds after it was asked to"
        say(f"relpos: process {process.pid} {late}: killed")
        process.kill()
        return process.wait()


def end_all(processes: Sequence[Process]) -> None:
    """Closes the pipes of processes of ours, which asks them to end, and waits until all have, as
    `end` does; whatever interrupts the wait, such as a second Ctrl-C, kills them."""
    # All pipes before the first wait, so that workers write their checkpoints at the same time.
    for process in processes:
        ask_to_end(process)
    try:
        for process in processes:
            end(process)
    finally:
        for process in processes:
            process.kill()


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gpus() -> list[str]:
    """Names of the GPUs that CUDA_VISIBLE_DEVICES allows, of all if it is not set; without loading
    torch."""
    names = os.getenv(VISIBLE)
    if names is not None:
        return [name for name in names.split(",") if name.strip() not in ("", "-1")]
    return [str(number) for number, _ in enumerate(GPUS.glob("*"))]


def set_threads(threads: int | None) -> int:
    """Sets the CPU threads where a number is given; returns the number in force. Results depend on
    it in the last bits."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    return torch.get_num_threads()


def thread_variables(threads: int, asked: bool) -> dict[str, str]:
    """The environment variables of a process with so many threads. The user's values are kept;
    OMP_NUM_THREADS decides for all of them if it is set.

    Args:
        asked: whether the user has said the number; then `ASKED` is set too.
    """
    threads = omp_threads() or threads
    variables = {name: os.getenv(name) or str(threads) for name in THREADS}
    if asked:
        variables[ASKED] = "1"
    return variables


def interrupt(number: int, frame: FrameType | None) -> None:
    """A signal handler: raises KeyboardInterrupt with the signal's number; after an import, if one
    is under way.

    Signals that come within `TOGETHER` of each other are one request: a second KeyboardInterrupt
    would break off the way out.
    """
    global _deaf_until
    if time.monotonic() < _deaf_until:
        return
    if _is_importing(frame):  # libraries swallow it there and go on with half a module
        _deaf_until = math.inf
        again = threading.Timer(0.1, _send_again, [number])
        again.daemon = True
        again.start()
    else:
        _deaf_until = time.monotonic() + TOGETHER
        raise KeyboardInterrupt(number)


_deaf_until = -math.inf
"""The time until which `interrupt` takes signals for repeated ones."""


def _send_again(number: int) -> None:
    global _deaf_until
    _deaf_until = -math.inf
    os.kill(os.getpid(), number)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether the function of ours that is at work imports a module."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        is_ours = frame.f_globals.get("__name__", "").startswith("relpos.")
        if is_ours and frame.f_code.co_name != "<module>":
            return False
        frame = frame.f_back
    return frame is not None


def on_stops(handler: Handler | signal.Handlers) -> dict[int, Handler | int | None]:
    """Sets the handler of the signals of `STOPS`, which hears the next one in any case; returns
    the handlers before.

    Where SIGHUP is ignored it stays so: that is how nohup lets a command go on after its terminal
    is closed.
    """
    global _deaf_until
    _deaf_until = -math.inf
    return {
        number: signal.signal(number, handler)
        for number in STOPS
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    }


def exit_status(code: int | None) -> str:
    """How a child process ended: `SIGKILL` or `status 1`."""
    if code and code < 0:
        return signal.Signals(-code).name
    return f"status {code}"


@contextmanager
def handling(handler: Handler) -> Iterator[None]:
    """Sets the handler of the signals of `STOPS`, as `interrupt` for KeyboardInterrupt; the handlers
    before come back at the end."""
    before = on_stops(handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier or signal.SIG_DFL)  # None: it was not set from Python


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals of `STOPS` wait until the end, for what must not be broken off half-way; the first of
    them then comes."""
    held: list[int] = []
    # signals interrupt the main thread alone
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        with handling(lambda number, _: held.append(number)):
            yield
    finally:
        if held:
            os.kill(os.getpid(), held[0])


def tether(before: Callable[[], None] | None = None) -> None:
    """Waits until standard input, a pipe from the parent, closes; then sends this process SIGTERM.
    Runs in a thread of its own.

    Args:
        before: called first, once the pipe has closed.
    """
    # Nothing is written to the pipe: the read returns, with nothing, when the parent is gone.
    while os.read(0, 1024):
        pass
    if before is not None:
        before()
    os.kill(os.getpid(), signal.SIGTERM)

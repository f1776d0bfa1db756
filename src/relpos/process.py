"""What every process that relpos starts needs: cores, thread variables, stop signals, and the pipe that ties it to its parent."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

STOPS = (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that ask a process to stop at the next step; of several, the first of these counts. A cluster sends SIGUSR2 before a
preemption or the time limit, a terminal that is closed SIGHUP."""
Handler = Callable[[int, FrameType | None], Any]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables from which numerical libraries take their number of threads; they read them once, when they are loaded."""

ASKED = "RELPOS_THREADS_ASKED"
"""Environment variable of workers whose threads the user has set: a run that goes on then takes them, not those of its record."""

COMMAND = "RELPOS_COMMAND"
"""Environment variable with the command that the user has typed. Workers, ranks and jobs of a cluster inherit it."""


def command() -> str:
    """What the user has typed to start this process, or the one that started it: `relpos …`, or a script that calls relpos."""
    return os.environ.get(COMMAND) or shlex.join(sys.argv)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_variables(threads: int, asked: bool) -> dict[str, str]:
    """The environment variables of a process with so many threads. The user's values are kept; OMP_NUM_THREADS decides
    for all of them if it is set.

    Args:
        asked: whether the user has said the number; then `ASKED` is set too.
    """
    variables = {name: os.environ.get(name, os.environ.get("OMP_NUM_THREADS", str(threads))) for name in THREADS}
    return variables | ({ASKED: "1"} if asked else {})


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes with one CPU thread meanwhile. For operations of microseconds a second one only costs time: many times their
    own on a busy machine, where it has to wait for a core."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def interrupt(number: int, frame: FrameType | None) -> None:
    """A signal handler: raises KeyboardInterrupt with the signal's number."""
    raise KeyboardInterrupt(number)


def on_stops(handler: Handler) -> dict[int, Any]:
    """Sets the handler of the signals of `STOPS`; returns those that were there before.

    Where SIGHUP is ignored it stays so: that is how nohup lets a command go on after its terminal is closed.
    """
    wanted = [number for number in STOPS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in wanted}


def exit_status(code: int | None) -> str:
    """How a child process ended: `SIGKILL` or `status 1`."""
    return signal.Signals(-code).name if code and code < 0 else f"status {code}"


@contextmanager
def handling(handler: Handler) -> Iterator[None]:
    """Sets the handler of the signals of `STOPS`; those that were there before come back at the end."""
    before = on_stops(handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier or signal.SIG_DFL)  # None: it was not set from Python


def interruptible() -> AbstractContextManager[None]:
    """Makes the signals of `STOPS` raise KeyboardInterrupt."""
    return handling(interrupt)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals of `STOPS` wait until the end, for what must not be broken off half-way; the first of them then comes."""
    held: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # which is the one that signals interrupt
        yield
        return
    try:
        with handling(lambda number, _: held.append(number)):
            yield
    finally:
        if held:
            os.kill(os.getpid(), held[0])


def tether(before: Callable[[], None] | None = None) -> None:
    """Waits until standard input, a pipe from the parent, closes; then sends this process SIGTERM. Runs in a thread of its own.

    Args:
        before: called first, once the pipe has closed.
    """
    # Nothing is written to it: the read returns, with nothing, when the parent is gone.
    while os.read(0, 1024):
        pass
    if before is not None:
        before()
    os.kill(os.getpid(), signal.SIGTERM)

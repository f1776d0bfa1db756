"""Functions applied by processes side by side.

The processes are started as programs (`python -m relpos.pool`), neither forked, which is unsafe in
a process with threads of other libraries, nor spawned, which would run the caller's script again.
Each takes one item at a time from its standard input and ends when that is closed; so it does not
outlive a process that is killed by more than one item.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from queue import SimpleQueue
from typing import Protocol, TypeVar

from relpos.errors import RelposError, say
from relpos.process import Process, end_all, exit_status, handling, interrupt, started

Item = TypeVar("Item")
Result = TypeVar("Result")


class Submit(Protocol):
    """Hands an item to a process."""

    def __call__(self, function: Callable[[Item], Result], item: Item) -> Future[Result]: ...


@contextmanager
def pool(count: int) -> Iterator[Submit]:
    """Yields a function (function, item) → the future of its result; `count` processes are started
    when it is first called.

    What the function prints on stderr appears when the item is done. The future raises RelposError
    where the function fails, or its process ends before it is done.
    """
    processes: list[Process] = []
    free: SimpleQueue[Process] = SimpleQueue()
    # A thread for each process. In threads alone, all that holds the interpreter's lock would take
    # turns.
    threads = ThreadPoolExecutor(count)

    def apply(function: Callable[[Item], Result], item: Item) -> Result:
        process = free.get()
        assert process.stdin
        assert process.stdout
        try:
            # One item at a time: if both sides wrote at once, each could wait for the other to
            # empty a full pipe.
            pickle.dump((function, item), process.stdin)
            process.stdin.flush()
            result, printed, failed = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            raise RelposError(
                f"its process ended with {exit_status(process.wait())}; the same command goes on"
            ) from None
        finally:
            free.put(process)
        say(printed, end="")
        if failed:
            raise RelposError(failed)
        return result

    def submit(function: Callable[[Item], Result], item: Item) -> Future[Result]:
        if not processes:
            for _ in range(count):
                # Its own process group: Ctrl-C reaches this process alone, which stops the others.
                processes.append(started("relpos.pool", stdout=subprocess.PIPE, process_group=0))
                free.put(processes[-1])
        return threads.submit(apply, function, item)

    try:
        yield submit
    finally:
        # Without waiting: the threads read from processes that are ended first.
        threads.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        end_all(processes)
        threads.shutdown()
        for process in processes:
            assert process.stdout
            process.stdout.close()


def _serve() -> None:
    """Answers each (function, item) on standard input with (result, text printed on stderr, error)
    on standard output; the error is empty where the function succeeds."""
    with os.fdopen(os.dup(1), "wb") as results:
        os.dup2(2, 1)  # what a library prints must not end up among the results
        while True:
            try:
                function, item = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            # Only at work, where a half-written file is to be removed: a process that waits for an
            # item is simply ended.
            result, failed = None, ""
            # no terminal, so no progress bars
            with handling(interrupt), redirect_stderr(StringIO()) as printed:
                try:
                    result = function(item)
                except RelposError as error:
                    failed = str(error)
                except Exception as error:  # a bug, whose traceback is shown
                    traceback.print_exc()
                    failed = f"{type(error).__name__}: {error}"
            try:
                pickle.dump((result, printed.getvalue(), failed), results)
                results.flush()
            except BrokenPipeError:  # the other side was killed
                # Closing `results` would write what is left to the broken pipe, and print a
                # traceback.
                os._exit(1)


if __name__ == "__main__":
    try:
        _serve()
    except KeyboardInterrupt:
        sys.exit(130)

"""A function applied to many things by processes side by side, for what a launcher computes itself.

`python -m` of this module is one of the processes. It takes one item at a time from its standard input and ends when that is
closed; so it does not outlive a launcher that is killed by more than one item.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, redirect_stderr, suppress
from io import StringIO
from queue import SimpleQueue
from typing import TypeVar

from relpos.errors import RelposError, say
from relpos.process import end, exit_status, interruptible, started

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    function: Callable[[Item], Result], items: Sequence[Item], environments: Sequence[dict[str, str]], title: str
) -> list[Result]:
    """`[function(item) for item in items]`, computed by one process for each environment, with a progress bar.

    What the function prints on stderr appears as each item is done.

    Args:
        function: of some module, so that it can be pickled.
        items: picklable; `str` names one in messages.
        environments: the environment variables of each process.
        title: of the progress bar.

    Raises:
        RelposError: the function fails, or a process ended before it was done with its item; begins with the item.
        KeyboardInterrupt: asked to stop; the processes have ended, and no file is half written.
    """
    from relpos.progress import bar

    free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

    def apply(item: Item) -> tuple[Result, str, str]:
        process = free.get()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((function, item), process.stdin)
            process.stdin.flush()
            done: tuple[Result, str, str] = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            raise RelposError(f"{item}: its process ended with {exit_status(process.wait())}; the same command goes on") from None
        finally:
            free.put(process)
        return done

    with interruptible(), ExitStack() as stack:
        processes = [stack.enter_context(_process(environment)) for environment in environments]
        for process in processes:
            free.put(process)
        advance = stack.enter_context(bar(title, len(items)))
        threads = stack.enter_context(ThreadPoolExecutor(len(processes)))
        futures = [threads.submit(apply, item) for item in items]
        try:
            for future in as_completed(futures):
                _, said, failed = future.result()
                say(said, end="")
                if failed:
                    raise RelposError(failed)
                advance(1)
        finally:
            # Not waited for here: they read from the processes that are ended below. The stack joins them afterwards.
            threads.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
    return [future.result()[0] for future in futures]


@contextmanager
def _process(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    name = "relpos.launch.side_by_side"
    # Its own process group: Ctrl-C reaches the launcher alone, which stops the processes.
    with started(name, environment=environment, stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdin is not None
        try:
            yield process
        finally:
            with suppress(BrokenPipeError):  # what a process that died was not told
                process.stdin.close()
            end(process)


def _serve() -> None:
    """Answers each (function, item) on standard input with (result, what was printed on stderr, why the function failed) on
    standard output; the last is empty where it did not."""
    with os.fdopen(os.dup(1), "wb") as results:
        os.dup2(2, 1)  # what a library prints must not end up among the results
        while True:
            try:
                function, item = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            # Only at work, where a half-written file is to be removed: a process that waits for an item is simply ended.
            result, failed = None, ""
            with interruptible(), redirect_stderr(StringIO()) as said:  # no terminal, so no progress bars
                try:
                    result = function(item)
                except RelposError as error:
                    failed = f"{item}: {error}"
                except Exception as error:  # a bug, whose traceback is shown
                    traceback.print_exc()
                    failed = f"{item}: {type(error).__name__}: {error}"
            try:
                pickle.dump((result, said.getvalue(), failed), results)
                results.flush()
            except BrokenPipeError:  # the launcher was killed
                # Closing `results` would write what is left to the broken pipe, and print a traceback.
                os._exit(1)


if __name__ == "__main__":
    try:
        _serve()
    except KeyboardInterrupt:
        sys.exit(130)

"""Tasks in processes side by side, of which any may die: what an aborted process leaves undone
others do."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any

Result = dict[str, Any]
Task = Callable[[], Result]


def side_by_side(
    tasks: Mapping[str, Task], workers: int, seconds: float
) -> Iterator[tuple[str, Result]]:
    """(name, result) of each task as it is done, in `seconds` at most; what is unfinished then has
    the result `{"fault": …}`.

    Workers are forks of this process, which should have imported everything and must not have
    touched the device. A worker ends after a task whose result has a `fault`, because an error of
    CUDA stays with its process.
    """
    context = multiprocessing.get_context("fork")
    end = time.monotonic() + seconds
    waiting = list(tasks)
    busy: dict[Connection, tuple[ForkProcess, str]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs, tasks), daemon=True)
                process.start()
                theirs.close()
                _give(busy, ours, process, waiting)
            ready = wait(list(busy), max(0.0, end - time.monotonic()))
            if not ready:
                break
            for connection in ready:
                assert isinstance(connection, Connection)
                process, name = busy.pop(connection)
                try:
                    result = connection.recv()
                except (EOFError, ConnectionResetError):
                    process.join()
                    result = {"fault": f"its process ended with {process.exitcode}"}
                # Before the result is handed out: whoever takes one and no more leaves no process
                # behind.
                if "fault" not in result and waiting:
                    _give(busy, connection, process, waiting)
                else:
                    process.kill()
                    process.join()
                    connection.close()
                yield name, result
        for name in [*(name for _, name in busy.values()), *waiting]:
            yield name, {"fault": "unfinished"}
    finally:
        for process, _ in busy.values():
            process.kill()
            process.join()


def _give(
    busy: dict[Connection, tuple[Any, str]],
    connection: Connection,
    process: Any,
    waiting: list[str],
) -> None:
    busy[connection] = process, waiting.pop(0)
    with suppress(BrokenPipeError):  # the process has died: reading from it says so
        connection.send(busy[connection][1])


def _work(connection: Connection, tasks: Mapping[str, Task]) -> None:
    while True:
        try:
            name = connection.recv()
        except EOFError:
            return
        start = time.perf_counter()
        try:
            result = tasks[name]()
        except Exception as error:  # of any kind: the rest goes on
            result = {
                "fault": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}"
            }
        connection.send(result | {"seconds": round(time.perf_counter() - start, 2)})
        if "fault" in result:
            return

"""Texts -> token ids of their sentences, in order, on several processors once there is enough to do.

Each processor gets a process of its own, fed by a thread: in threads of one process, all that holds the interpreter's
lock would take turns. The processes are started as programs (`python -m relpos.data.encoding MODEL`), neither forked, which is
unsafe in a process with threads of other libraries, nor spawned, which would run the caller's script again. They end when their
input is closed.

loky instead encoded 109 MB of books at 0.66 of this speed and with a tenth more CPU time (medians of 8 pairs in
alternation, two busy cores).
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
import numpy.typing as npt

from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.sentences import split
from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError
from relpos.process import end, exit_status, started

Encoded = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]  # tokens of every sentence; their ids
Mark = TypeVar("Mark")

ALONE = 3_000_000  # characters encoded here before other processes are started
AHEAD = 4  # texts that are read ahead for each process


def encode(tokenizer: Tokenizer, text: str) -> Encoded:
    """The lengths and ids of a text's sentences; sentences of which normalisation leaves nothing are left out."""
    ids = tokenizer.encode(split(text))
    lengths = np.fromiter(map(len, ids), np.int32, len(ids))
    return lengths[lengths > 0], np.concatenate(ids) if ids else np.zeros(0, np.int32)


def encoded(feed: Iterator[str | Mark], tokenizer: Tokenizer, processes: int) -> Iterator[Encoded | Mark]:
    """`feed` with every text in it encoded; any other item is passed on, in order."""
    waiting: deque[Future[Encoded] | Encoded | Mark] = deque()
    characters = 0
    with _Workers(tokenizer.path, processes) as workers:
        for item in feed:
            if isinstance(item, str):
                characters += len(item)
                waiting.append(encode(tokenizer, item) if processes < 2 or characters < ALONE else workers.submit(item))
            else:
                waiting.append(item)
            # Without a limit a reader that is faster than the processes would hold the whole text in memory.
            while waiting and (len(waiting) > AHEAD * processes or not isinstance(waiting[0], Future)):
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())


def _result(item: Future[Encoded] | Encoded | Mark) -> Encoded | Mark:
    return item.result() if isinstance(item, Future) else item


class _Workers:
    """Threads, each with a process that it starts when it first has something to do."""

    def __init__(self, model: Path, count: int) -> None:
        self.model = model
        self.threads = ThreadPoolExecutor(count)
        self.this_thread = threading.local()
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        # Threads before processes: `communicate` reads a process's output, and would take the answer that a thread waits for.
        self.threads.shutdown(cancel_futures=True)
        for process in self.processes:
            assert process.stdin
            with suppress(BrokenPipeError):  # of a process that was killed
                process.stdin.close()  # at which it ends
            end(process)

    def submit(self, text: str) -> Future[Encoded]:
        return self.threads.submit(self._encode, text)

    def _encode(self, text: str) -> Encoded:
        process: subprocess.Popen[bytes] = getattr(self.this_thread, "process", None) or self._start()
        assert process.stdin
        assert process.stdout
        try:
            # One text at a time: if both sides wrote at once, each could wait for the other to empty a full pipe.
            _send(process.stdin, text.encode())
            lengths, ids = _receive(process.stdout), _receive(process.stdout)
        except OSError:
            lengths = ids = None
        if lengths is None or ids is None:
            raise RelposError(f"an encoding process ended with {exit_status(process.wait())}")
        return np.frombuffer(lengths, np.int32), np.frombuffer(ids, np.int32)

    def _start(self) -> subprocess.Popen[bytes]:
        process = started("relpos.data.encoding", str(self.model), stdout=subprocess.PIPE)
        self.processes.append(process)
        self.this_thread.process = process
        return process


def _send(file: IO[bytes], data: bytes) -> None:
    file.write(struct.pack("<q", len(data)))
    file.write(data)
    file.flush()


def _receive(file: IO[bytes]) -> bytes | None:
    """What `_send` sent; None at the end of the file."""
    head = file.read(8)
    if len(head) < 8:
        return None
    (size,) = struct.unpack("<q", head)
    data = file.read(size)
    return data if len(data) == size else None


def _serve(model: str) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal's signals reach the parent, too, which closes our input
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the parent was killed: end without a traceback
    tokenizer = load_tokenizer(model)
    while (text := _receive(sys.stdin.buffer)) is not None:
        for part in encode(tokenizer, text.decode()):
            _send(sys.stdout.buffer, part.tobytes())


if __name__ == "__main__":
    _serve(sys.argv[1])

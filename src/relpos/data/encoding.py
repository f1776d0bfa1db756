"""Texts -> token ids of their sentences, in order; several processes encode large texts.

loky instead of `relpos.pool` encoded 109 MB of books at 0.66 of its speed and with a tenth more CPU
time (medians of 8 pairs in alternation, two busy cores). The processes import this module and not
the store, which loads torch: 0.14 s and 37 MB for each of them, where the store takes 1.1 s and 223
MB.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from relpos.data.documents import split
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.tokenizer import TextIds, Tokenizer
from relpos.pool import pool

Sentences = tuple[TextIds, TextIds]  # tokens of every sentence; their ids
Mark = TypeVar("Mark")

ALONE = 3_000_000  # characters encoded here before other processes are started
AHEAD = 4  # texts that are read ahead for each process


def encode(tokenizer: Tokenizer, text: str) -> Sentences:
    """The lengths and ids of a text's sentences; sentences of which normalisation leaves nothing
    are left out."""
    ids = tokenizer.encode(split(text))
    lengths = np.fromiter(map(len, ids), np.int32, len(ids))
    return lengths[lengths > 0], np.concatenate([np.zeros(0, np.int32), *ids])


def encoded(
    feed: Iterator[str | Mark],
    tokenizer: Tokenizer,
    processes: int,
) -> Iterator[Sentences | Mark]:
    """`feed` with every text in it encoded; any other item is passed on, in order."""
    waiting: deque[Future[Sentences] | Sentences | Mark] = deque()
    characters = 0
    with pool(processes) as submit:
        for item in feed:
            if isinstance(item, str):
                characters += len(item)
                if processes < 2 or characters < ALONE:
                    waiting.append(encode(tokenizer, item))
                else:
                    waiting.append(submit(partial(_encode_with, tokenizer.path), item))
            else:
                waiting.append(item)
            # Without a limit a reader that is faster than the processes would hold the whole text
            # in memory.
            while waiting and (
                len(waiting) > AHEAD * processes or not isinstance(waiting[0], Future)
            ):
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())


def _result(item: Future[Sentences] | Sentences | Mark) -> Sentences | Mark:
    return item.result() if isinstance(item, Future) else item


def _encode_with(tokenizer: Path, text: str) -> Sentences:
    return encode(_loaded(tokenizer), text)


_loaded = cache(load_tokenizer)

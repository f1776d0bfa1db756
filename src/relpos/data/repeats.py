"""Rows of a stream of books -> the same rows without the second and later copies of a book.

BookCorpus holds 7,185 different books in 11,038 (Bandy & Vincent 2021, "Addressing documentation debt"), and the hub keeps it as
one sentence a row with no sign where a book ends. Copies of one book in training and in held-out text would make held-out losses
too low, so all but the first are left out.

Rows are taken in blocks. Of the long rows of a block, which hardly ever occur in two books, those with a CRC-32 divisible by
`SAMPLED` are remembered: a few million numbers for all of BookCorpus. A block in which at least half of these rows were seen before
is part of a copy. At most the two blocks that a copy shares with the books before and after it remain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from zlib import crc32

BLOCK = 500  # rows
LONG = 40  # characters from which on a row is taken for one that does not occur by chance in another book
SAMPLED = 16  # one in so many long rows is remembered
FEWEST = 4  # a block with fewer remembered rows is kept: they are too few to tell


def without_repeats(rows: Iterable[str], dropped: Counter[str] | None = None) -> Iterator[str]:
    """The rows in their order, without the blocks that repeat earlier ones; `dropped` counts the rows of these.

    >>> book = [f"It was on the {n}th of the month that we met at the station ." for n in range(1000)]
    >>> [*without_repeats(book + book)] == book
    True
    """
    known: set[int] = set()
    rows = iter(rows)
    while block := list(islice(rows, BLOCK)):
        # Not `hash`, which Python salts anew in each process: the same text must lose the same rows.
        marks = {code for row in block if len(row) >= LONG and not (code := crc32(row.strip().encode())) % SAMPLED}
        if len(marks) < FEWEST or 2 * len(marks & known) < len(marks):
            yield from block
        elif dropped is not None:
            dropped["rows of repeated books"] += len(block)
        known |= marks

"""Tables with a column of text, of the Hugging Face hub or in files, through `datasets`, which is
imported when one is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count, islice
from logging import CRITICAL, getLogger
from pathlib import Path
from zlib import crc32

from relpos.data.documents import Document, documents_of, has_title
from relpos.data.filehash import Identity, described_folder
from relpos.data.table import csv_rows, objects
from relpos.data.textfile import blocks, decompressed, suffix
from relpos.errors import RelposError, from_library, nearest
from relpos.readers import besides, fitted
from relpos.trust import refuse_mistakes

ROWS = 1_000  # read at a time
COMMIT = re.compile(r"[0-9a-f]{40}")
BLOCK = 500  # rows
# characters; so long a row hardly occurs by chance in another book
LONG = 40
SAMPLED = 16  # one in so many long rows is remembered
FEWEST = 4  # a block with fewer remembered rows is kept: they are too few to tell

Batch = tuple[Iterable[str], Iterable[object]]
"""The names of the columns, and the next values of the column of text."""


@dataclass(frozen=True)
class HubText:
    """An entry of `data.texts`."""

    id: str
    config: str | None = None
    revision: str | None = None
    split: str = "train"
    text: str = "text"
    unique: bool = False


def checked(text: Mapping[str, object]) -> HubText:
    """One entry of `data.texts`.

    Raises:
        RelposError: a key is unknown, a value is wrong, or `id` is missing.
    """
    refuse_mistakes(text, HubText, "data.texts")
    if not text.get("id"):
        raise RelposError("data.texts: an entry has no id")
    return fitted(text, HubText)


def identified(data_set: Mapping[str, object]) -> Identity:
    """What identifies a data set: its id, or for a folder its files; and its other keys."""
    folder = Path(str(data_set["id"]))
    if not folder.is_dir():
        return dict(data_set)
    return besides(data_set, ["id"]) | {"files": described_folder(folder, folder)}


def commit(text: HubText) -> str | None:
    """The commit of a data set on the hub that its revision names today; None for a folder."""
    import datasets

    with suppress(Exception):  # many unrelated types; the reader of the text says what is wrong
        builder = datasets.load_dataset_builder(text.id, text.config, revision=text.revision)
        if COMMIT.fullmatch(builder.hash or ""):
            return str(builder.hash)
    return None


def documents(text: HubText, lines: int, streaming: bool) -> Iterator[Document]:
    """WikiText's articles where the first row is a heading of WikiText, else documents of `lines`
    rows.

    `unique` leaves out repeated books.
    """

    def batches() -> Iterator[Batch]:
        import datasets

        # builders log their errors, which are raised as well
        getLogger("datasets.packaged_modules").setLevel(CRITICAL)
        keys = {"revision": text.revision, "split": text.split, "streaming": streaming}
        for batch in datasets.load_dataset(text.id, text.config, **keys).iter(ROWS):
            yield batch, batch.get(text.text, [])

    rows = _rows(f"data.texts: {text.id}", text.text, batches())
    yield from _documents(text.id, rows, lines, text.unique)


def documents_of_file(name: str, path: Path, column: str, lines: int) -> Iterator[Document]:
    """The documents of a file in one of the formats of `TABLES`; JSONL and CSV may be
    compressed."""
    kind = suffix(path)
    if kind in (".jsonl", ".csv") and not any(map(str.strip, blocks(path))):
        return  # an empty file has no rows
    rows = _rows(f"data.text: {path}", column, TABLES[kind](path, column))
    yield from _documents(name, rows, lines)


def _documents(
    name: str,
    rows: Iterator[str],
    lines: int,
    unique: bool = False,
) -> Iterator[Document]:
    head = list(islice(rows, 100))
    rows = chain(head, rows)
    if has_title(head):
        yield from documents_of(name, _blocks(rows))
        return
    if unique:
        rows = without_repeats(rows)
    number = 0
    while part := list(islice(rows, lines)):
        number += 1
        paragraphs = chain.from_iterable(block.split("\n") for block in _blocks(iter(part)))
        yield Document(f"{name}#{number}", paragraphs)


def _blocks(rows: Iterator[str]) -> Iterator[str]:
    """Rows, a line each, in blocks."""
    while part := list(islice(rows, ROWS)):
        yield "\n".join(row.replace("\r\n", "\n").rstrip("\n") for row in part) + "\n"


def _rows(place: str, column: str, batches: Iterator[Batch]) -> Iterator[str]:
    """The column of text, row by row, of null an empty text; `place` begins the messages.

    Raises:
        RelposError: a batch cannot be read, or the column is missing or holds something else.
    """
    columns, number = set[str](), count(1)
    with from_library(place):
        for names, values in batches:
            columns.update(names)
            if column not in columns:
                raise RelposError(f"{place} has no column {column!r}.{nearest(column, columns)}")
            for value, row in zip(values, number, strict=False):
                if not isinstance(value, str | None):
                    raise RelposError(
                        f"{place} row {row}: column {column!r} holds {value!r:.40}, a text is "
                        "expected"
                    )
                yield value or ""


def _of_json(path: Path, column: str) -> Iterator[Batch]:
    rows = (fields for _, fields in objects(path))
    while part := list(islice(rows, ROWS)):
        yield chain.from_iterable(part), [fields.get(column) for fields in part]


def _of_csv(path: Path, column: str) -> Iterator[Batch]:
    rows = csv_rows(path)
    _, header = next(rows)
    if header.count(column) > 1:
        raise RelposError(f"{path}: two columns {column!r}")
    yield header, []
    at = header.index(column)
    yield header, (row[at] for _, row in rows)


def _of_parquet(path: Path, column: str) -> Iterator[Batch]:
    from pyarrow import parquet

    with decompressed(path) as file:
        source = parquet.ParquetFile(file)
        names = source.schema_arrow.names
        for batch in source.iter_batches(ROWS, columns=[column]):
            yield names, batch[column].to_pylist() if column in names else []


TABLES = {".jsonl": _of_json, ".csv": _of_csv, ".parquet": _of_parquet}
"""End of the name of a table with a column of text → its reader."""


def without_repeats(rows: Iterable[str]) -> Iterator[str]:
    """The rows in their order, without the second and later copies of a book.

    BookCorpus holds 7,185 different books in 11,038 (Bandy & Vincent 2021, "Addressing
    documentation debt"), and the hub keeps it as one sentence a row with no sign where a book ends.
    Copies of one book in training and in held-out text would make held-out losses too low.

    Rows are taken in blocks. Of the long rows of a block, which hardly ever occur in two books,
    those with a CRC-32 divisible by `SAMPLED` are remembered: a few million numbers for all of
    BookCorpus. A block in which at least half of these rows were seen before is part of a copy. At
    most the two blocks that a copy shares with the books before and after it remain.

    >>> book = [f"It was on the {n}th of the month that we met at the station ." for n in range(1000)]
    >>> [*without_repeats(book + book)] == book
    True
    """
    earlier: set[int] = set()  # marks of the blocks before
    rows = iter(rows)
    while block := list(islice(rows, BLOCK)):
        # Not `hash`, which Python salts anew in each process: the same text must lose the same
        # rows.
        marks = {
            code
            for row in block
            if len(row) >= LONG and not (code := crc32(row.strip().encode())) % SAMPLED
        }
        if len(marks) < FEWEST or 2 * len(marks & earlier) < len(marks):
            yield from block
        earlier |= marks

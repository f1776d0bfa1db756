"""Tables with a column of text, of the Hugging Face hub or in files, through `datasets`, which is
imported when one is read."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain, islice
from logging import CRITICAL, getLogger
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

from relpos.data.documents import TITLE, Document, documents_of
from relpos.data.filehash import described_folder
from relpos.data.table import check_head, objects
from relpos.data.textfile import blocks, suffix
from relpos.errors import NOT_UTF8, RelposError, nearest, one_line
from relpos.trust import refuse_mistakes

ROWS = 1_000  # read at a time
TABLES = {".jsonl": "json", ".csv": "csv", ".parquet": "parquet", ".arrow": "arrow"}
"""End of a file's name -> the builder of `datasets` that reads it."""
COMMIT = re.compile(r"[0-9a-f]{40}")
BLOCK = 500  # rows
# characters from which on a row is taken for one that does not occur by chance in another book
LONG = 40
SAMPLED = 16  # one in so many long rows is remembered
FEWEST = 4  # a block with fewer remembered rows is kept: they are too few to tell

# passes blocks through and reports their sizes to a progress bar
Reporting = Callable[[Iterator[str]], Iterator[str]]


@dataclass(frozen=True)
class HubText:
    """An entry of `data.texts`."""

    id: str
    config: str | None = None
    revision: str | None = None
    split: str = "train"
    text: str = "text"
    unique: bool = False


def checked(text: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of `data.texts` with its defaults filled in.

    Raises:
        RelposError: a key is unknown, a value is wrong, or `id` is missing.
    """
    refuse_mistakes(text, HubText, "data.texts")
    if not text.get("id"):
        raise RelposError("data.texts: an entry has no id")
    return asdict(HubText(**text))


def identified(data_set: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies a data set: its id, or for a folder its files; and its other keys."""
    folder = Path(data_set["id"])
    if not folder.is_dir():
        return dict(data_set)
    return {key: value for key, value in data_set.items() if key != "id"} | {
        "files": described_folder(folder, folder)
    }


def commit(text: Mapping[str, Any]) -> str | None:
    """The commit of a data set on the hub that its revision names today; None for a folder."""
    import datasets

    with suppress(Exception):  # of many unrelated types; whoever reads the text says what is wrong
        builder = datasets.load_dataset_builder(
            text["id"], text["config"], revision=text["revision"]
        )
        if COMMIT.fullmatch(builder.hash or ""):
            return str(builder.hash)
    return None


def documents(
    text: dict[str, Any], lines: int, streaming: bool, reporting: Reporting
) -> Iterator[Document]:
    """WikiText's articles where the first row is a heading of WikiText, else documents of `lines`
    rows.

    `unique` leaves out repeated books.
    """
    rows = _rows(
        f"data.texts: {text['id']}",
        text["text"],
        text["id"],
        text["config"],
        revision=text["revision"],
        split=text["split"],
        streaming=streaming,
    )
    yield from _documents(text["id"], rows, lines, text["unique"], reporting)


def documents_of_file(
    name: str, path: Path, column: str, lines: int, reporting: Reporting
) -> Iterator[Document]:
    """The documents of a file in one of the formats of `TABLES`; JSONL and CSV may be
    compressed."""
    kind, options = suffix(path), dict[str, Any]()
    if kind in (".csv", ".jsonl"):
        # Not the first block: in a file without a line end it is empty, and the text follows.
        head = next(filter(str.strip, text := blocks(path)), "")
        if not head:  # an empty file has no rows; the builder ends in an error of its own
            return
    # not by the builder: pyarrow's reader dies of deep nesting, and takes dates for no texts
    if kind == ".jsonl":
        yield from _documents(name, _json_rows(path, column), lines, False, reporting)
        return
    # with the line that is not UTF-8; the builder names a temporary file and a byte
    if kind == ".csv":
        check_head(path, head, column)
        # Each text as it stands, else `NA` and `null` would be no text, and 1984 a number.
        options = {"keep_default_na": False, "converters": {column: str}}
        # the builder would take the place where it breaks off for its end
        if path.suffix == ".zst":
            deque(text, maxlen=0)
    elif (
        kind == ".parquet"
    ):  # by default a batch is the file's first group of rows, which may be empty
        options = {"batch_size": ROWS}
    with TemporaryDirectory() as folder:
        # `datasets` takes `texts[1].csv` for a pattern, which is the name of another file, and
        # `a::b.csv` for two addresses.
        plain = Path(folder, f"text{kind}{path.suffix.removeprefix(kind)}")
        plain.symlink_to(path.absolute())
        source = {"data_files": str(plain), "split": "train", "streaming": True}
        rows = _rows(f"data.text: {path}", column, TABLES[kind], **source, **options)
        yield from _documents(name, rows, lines, False, reporting)


def _documents(
    name: str, rows: Iterator[str], lines: int, unique: bool, reporting: Reporting
) -> Iterator[Document]:
    head = list(islice(rows, 100))
    rows = chain(head, rows)
    if TITLE.match(next((row for row in head if row.strip()), "")):
        yield from documents_of(name, reporting(_blocks(rows)))
        return
    dropped = Counter[str]()
    if unique:
        rows = without_repeats(rows, dropped)
    number = 0
    while part := list(islice(rows, lines)):
        number += 1
        paragraphs = chain.from_iterable(
            block.split("\n") for block in reporting(_blocks(iter(part)))
        )
        yield Document(f"{name}#{number}", paragraphs, dropped=dropped)


def _blocks(rows: Iterator[str]) -> Iterator[str]:
    """Rows, a line each, in blocks."""
    while part := list(islice(rows, ROWS)):
        yield "\n".join(row.replace("\r\n", "\n").rstrip("\n") for row in part) + "\n"


def _rows(place: str, column: str, *names: Any, **options: Any) -> Iterator[str]:
    """The column of text, row by row; `place` begins the messages, the rest are arguments of
    `load_dataset`.

    Raises:
        RelposError: `datasets` cannot load it, or the column is missing or holds something else.
    """
    try:
        import datasets

        # builders log their errors, with the name of our temporary file
        getLogger("datasets.packaged_modules").setLevel(CRITICAL)
        for batch in datasets.load_dataset(*names, **options).iter(ROWS):
            if column not in batch:
                raise RelposError(f"{place} has no column {column!r}.{nearest(column, batch)}")
            for row in batch[column]:
                if not isinstance(row, str | None):
                    raise RelposError(f"{place}: {_no_text(column, row)}")
                yield row or ""
    except RelposError:
        raise
    except UnicodeDecodeError:
        raise RelposError(f"{place}: {NOT_UTF8}") from None
    except (
        Exception
    ) as error:  # the hub, the network and broken files raise errors of many unrelated types
        raise RelposError(f"{place}: {one_line(error)}") from error


def _json_rows(path: Path, column: str) -> Iterator[str]:
    """The column of text of JSON lines; a row without it has no text. RelposError names file and
    line."""
    rows, is_there = objects(path), False
    while part := list(islice(rows, ROWS)):
        is_there = is_there or any(column in fields for _, fields in part)
        if not is_there:
            keys = {key for _, fields in part for key in fields}
            raise RelposError(f"data.text: {path} has no column {column!r}.{nearest(column, keys)}")
        for number, fields in part:
            text = fields.get(column)
            if not isinstance(text, str | None):
                raise RelposError(f"data.text: {path} line {number}: {_no_text(column, text)}")
            yield text or ""


def _no_text(column: str, value: object) -> str:
    return f"column {column!r} holds {value!r:.40}, a text is expected"


def without_repeats(rows: Iterable[str], dropped: Counter[str] | None = None) -> Iterator[str]:
    """The rows in their order, without the second and later copies of a book; `dropped` counts the
    rows of these.

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
        elif dropped is not None:
            dropped["rows of repeated books"] += len(block)
        earlier |= marks

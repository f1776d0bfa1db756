"""A text file, plain or compressed, as a stream of blocks of whole lines: strict UTF-8, LF line
ends, no byte order mark.

Blocks have about a megabyte, because Python's overhead is paid once for each block and not for each
line; memory is that of one block, also for a file that is one single line.
"""

from __future__ import annotations

import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from relpos.errors import RelposError, one_line
from relpos.readers import check_regular, decoded

SUFFIXES = (".txt", ".tokens", ".train")  # WikiText's files end in .tokens, BabyLM's in .train
MARKDOWN = (".md", ".markdown")
BLOCK = 1 << 20  # bytes
LONGEST = 1 << 26  # characters of a line that is read whole


def suffix(path: Path) -> str:
    """The suffix without that of the compression: `.txt` for `a.txt` and for `a.txt.gz`."""
    if path.suffix in _OPEN:
        return Path(path.stem).suffix
    return path.suffix


def blocks(path: Path) -> Iterator[str]:
    """The text of a file in portions of whole lines (a line longer than a block is cut at a space).

    RelposError with file and line where it is not UTF-8 or its compression is broken.
    """
    line, tail, mark = 1, b"", codecs.BOM_UTF8
    # Before the file is opened: opening a named pipe would wait for a writer.
    check_regular(path)
    try:
        with decompressed(path) as file:
            while data := file.read(BLOCK):
                data = tail + data
                # A block ends after its last line end or, where a line is longer than a block,
                # after its last space.
                cut = data.rfind(b"\n") + 1
                if cut == 0 and len(data) >= BLOCK:
                    # Without the last character, which may not be complete.
                    cut = data.rfind(b" ") + 1 or codecs.utf_8_decode(data[:-1], "replace")[1]
                data, tail = data[:cut], data[cut:]
                yield decoded(data.removeprefix(mark), path, line).replace("\r\n", "\n")
                line += data.count(b"\n")
                if data:
                    mark = b""
            if tail:
                yield decoded(tail.removeprefix(mark), path, line).replace("\r\n", "\n")
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise RelposError(f"{path}, near line {line}: {one_line(error)}") from error


def decompressed(path: Path) -> IO[bytes]:
    """The open file, of which plain bytes are read."""
    opening = _OPEN.get(path.suffix)
    return opening(path) if opening else path.open("rb")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file, whole, with their numbers.

    Raises:
        RelposError: names file and line: see `blocks`; there is no text; a NUL byte; or a line is
            longer than any text should be.
    """
    is_empty = True
    for number, line in enumerate(_whole(path), 1):
        if "\0" in line:
            raise RelposError(f"{path} line {number}: a NUL byte, which no text holds")
        is_empty = is_empty and not line.strip()
        yield number, line
    if is_empty:
        raise RelposError(f"{path}: the file is empty")


def _whole(path: Path) -> Iterator[str]:
    number, tail = 0, ""
    for block in blocks(path):
        # Not splitlines: it cuts at U+0085 and U+2028, which are text.
        *whole, tail = (tail + block).split("\n")
        yield from whole
        number += len(whole)
        if len(tail) > LONGEST:
            raise RelposError(
                f"{path} line {number + 1}: longer than {LONGEST:,} characters; "
                f"write it as several rows"
            )
    if tail:
        yield tail


def _zstandard(path: Path) -> IO[bytes]:
    """An open file of one Zstandard frame or several."""
    import pyarrow

    # `zstandard.open` would take the place where the last frame breaks off for its end.
    return pyarrow.input_stream(path, compression="zstd")


_OPEN: dict[str, Callable[[Path], IO[bytes]]] = {
    ".gz": gzip.open,  # type: ignore[dict-item]
    ".xz": lzma.open,
    ".zst": _zstandard,
}

"""A text file, plain or compressed, as a stream of blocks of whole lines: strict UTF-8, LF line ends, no byte order mark.

Blocks have about a megabyte, because Python's overhead is paid once for each block and not for each line; memory is that of one
block, also for a file that is one single line.
"""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from relpos.errors import RelposError
from relpos.files import check_regular

SUFFIXES = (".txt", ".tokens", ".train")  # WikiText's files end in .tokens, BabyLM's in .train
BLOCK = 1 << 20  # bytes


def stem_and_suffix(path: Path) -> tuple[str, str] | None:
    """`a.txt.gz` -> (`.txt`, `.gz`), `a.txt` -> (`.txt`, ""); None where it is not text."""
    suffixes = path.suffixes
    if path.suffix in SUFFIXES:
        return path.suffix, ""
    if path.suffix in _OPEN and len(suffixes) > 1 and suffixes[-2] in SUFFIXES:
        return suffixes[-2], path.suffix
    return None


def blocks(path: Path) -> Iterator[str]:
    """The text of a file in portions of whole lines (a line longer than a block is cut at a space).

    RelposError with file and line where it is not UTF-8 or its compression is broken.
    """
    opener = _OPEN.get(path.suffix, _plain)
    line, rest, first = 1, b"", True
    # Before it is opened: opening a named pipe waits for somebody to write to it.
    check_regular(path)
    try:
        with opener(path) as file:
            while data := file.read(BLOCK):
                data = rest + data
                cut = _cut(data)
                data, rest = data[:cut], data[cut:]
                yield _decoded(data.removeprefix(b"\xef\xbb\xbf") if first else data, path, line)
                line, first = line + data.count(b"\n"), False
            if rest:
                yield _decoded(rest, path, line)
    # A call, because Python evaluates this tuple only once something is raised: reading plain text does not load zstandard.
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, OSError, _zstd_error()) as error:
        raise RelposError(f"{path}, near line {line}: {_one_line(error)}") from error


def _cut(data: bytes) -> int:
    """Where a block ends: after its last line end; in a line too long for that after its last space."""
    end = data.rfind(b"\n") + 1
    if end == 0 and len(data) >= BLOCK:
        end = data.rfind(b" ") + 1 or _whole_characters(data)
    return end


def _whole_characters(data: bytes) -> int:
    """The end of the last complete UTF-8 character."""
    end = len(data) - 1
    # At most three bytes continue a character. A longer row of them is no UTF-8, and is cut anywhere: decoding refuses it.
    while end > len(data) - 4 and data[end] & 0xC0 == 0x80:
        end -= 1
    return end


def _decoded(data: bytes, path: Path, line: int) -> str:
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        at = line + data.count(b"\n", 0, error.start)
        raise RelposError(f"{path}, line {at}: not UTF-8 (byte 0x{data[error.start]:02x})") from None


def _plain(path: Path) -> BinaryIO:
    return open(path, "rb")


def _gzip(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb"))


def _xz(path: Path) -> BinaryIO:
    return cast(BinaryIO, lzma.open(path, "rb"))


def _zstandard(path: Path) -> BinaryIO:
    import zstandard

    return cast(BinaryIO, zstandard.open(path, "rb"))


def _zstd_error() -> type[Exception]:
    import zstandard

    return zstandard.ZstdError


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


_OPEN = {".gz": _gzip, ".xz": _xz, ".zst": _zstandard}

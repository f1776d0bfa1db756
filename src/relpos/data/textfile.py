"""A text file, plain or compressed, as a stream of blocks of whole lines: strict UTF-8, LF line ends, no byte order mark.

Blocks have about a megabyte, because Python's overhead is paid once for each block and not for each line; memory is that of one
block, also for a file that is one single line.
"""

from __future__ import annotations

import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from relpos.errors import RelposError, one_line
from relpos.readers import check_regular, decoded

SUFFIXES = (".txt", ".tokens", ".train")  # WikiText's files end in .tokens, BabyLM's in .train
MARKDOWN = (".md", ".markdown")
BLOCK = 1 << 20  # bytes
# Bytes of a Zstandard file that are unpacked at a time. Few: four of them may stand for 128 kB of text.
PACKED = 1 << 12


def suffix(path: Path) -> str:
    """`.txt` of `a.txt` and of `a.txt.gz`."""
    return Path(path.stem).suffix if path.suffix in _OPEN else path.suffix


def blocks(path: Path) -> Iterator[str]:
    """The text of a file in portions of whole lines (a line longer than a block is cut at a space).

    RelposError with file and line where it is not UTF-8 or its compression is broken.
    """
    line, rest, mark = 1, b"", codecs.BOM_UTF8
    # Before it is opened: opening a named pipe waits for somebody to write to it.
    check_regular(path)
    try:
        with _OPEN.get(path.suffix, partial(Path.open, mode="rb"))(path) as file:
            while data := file.read(BLOCK):
                data = rest + data
                cut = _cut(data)
                data, rest = data[:cut], data[cut:]
                yield decoded(data.removeprefix(mark), path, line).replace("\r\n", "\n")
                line, mark = line + data.count(b"\n"), b"" if data else mark
            if rest:
                yield decoded(rest.removeprefix(mark), path, line).replace("\r\n", "\n")
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise RelposError(f"{path}, near line {line}: {one_line(error)}") from error


def _cut(data: bytes) -> int:
    """Where a block ends: after its last line end; in a line too long for that after its last space."""
    end = data.rfind(b"\n") + 1
    if end == 0 and len(data) >= BLOCK:
        # Without the last character, which may not be complete.
        end = data.rfind(b" ") + 1 or codecs.utf_8_decode(data[:-1], "replace")[1]
    return end


class _Zstandard:
    """An open file of one Zstandard frame or several. `zstandard.open` would take the place where the last one breaks off for its
    end."""

    def __init__(self, path: Path) -> None:
        import zstandard

        self.new, self.broken = zstandard.ZstdDecompressor().decompressobj, zstandard.ZstdError
        self.file, self.frame = path.open("rb"), self.new()
        self.packed, self.text = b"", bytearray()

    def __enter__(self) -> _Zstandard:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def read(self, size: int) -> bytes:
        """`size` bytes of text, fewer at the end of a frame, none at that of the file; EOFError where one is no whole one."""
        while len(self.text) < size and not (self.text and self.frame.eof):
            if not (packed := self.packed or self.file.read(PACKED)):
                break
            if self.frame.eof:
                self.frame = self.new()
            try:
                self.text += self.frame.decompress(packed)
            except self.broken as error:
                raise EOFError(str(error)) from error
            self.packed = self.frame.unused_data
        if len(self.text) < size and not self.frame.eof:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        data = bytes(self.text[:size])
        del self.text[:size]
        return data


_OPEN: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open, ".zst": _Zstandard}

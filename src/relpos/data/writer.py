"""Documents -> a store, streamed: at no time is more in memory than a few portions of text and eight bytes a document."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from relpos.data.documents import Document
from relpos.data.sentences import portions, split, splitter
from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError
from relpos.files import write_json

MANIFEST = "manifest.json"
FORMAT = 1  # of the files; a reader refuses another


def write_store(documents: Iterable[Document], tokenizer: Tokenizer, folder: Path, heldout: float) -> None:
    """Write a store into `folder`. About `heldout` of the documents are held out, at least one and never all.

    RelposError where there is no sentence, or where the disk is full; without its manifest the folder is no store.
    """
    if not 0 < heldout < 1:
        raise RelposError(f"data.heldout={heldout}: a share between 0 and 1")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    dtype = "<u2" if tokenizer.size <= 1 << 16 else "<u4"
    try:
        with _Writer(folder, dtype) as out:
            for document in documents:
                out.add(document, tokenizer)
            out.finish(heldout)
    except OSError as error:
        free = shutil.disk_usage(folder).free / 1e6
        raise RelposError(f"cannot write {folder} ({free:,.0f} MB free): {error.strerror or error}") from error
    write_json(folder / MANIFEST, out.manifest | {"vocabulary": tokenizer.size, "splitter": splitter()})


class _Writer:
    """The open files of a store."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self.dtype = dtype
        self.files = {name: _File(folder / name) for name in ("ids.bin", "sentences.bin", "documents.bin", "heldout.bin", "sources.txt")}
        self.tokens, self.sentences = 0, 0
        self.starts = [0]  # of the documents, in sentences
        self.hashes: list[int] = []  # of the documents' content, 64 bits
        self.files["sentences.bin"].write(np.zeros(1, "<i8"))

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        for file in self.files.values():
            file.close(whole=kind is None)

    def add(self, document: Document, tokenizer: Tokenizer) -> None:
        """One document; one without a sentence leaves no trace."""
        content = hashlib.blake2b(digest_size=8)
        for text in portions(_hashed(document, content)):
            self._write(tokenizer.encode(split(text)))
        if self.sentences > self.starts[-1]:
            self.starts.append(self.sentences)
            self.hashes.append(int.from_bytes(content.digest(), "little"))
            self.files["sources.txt"].write(f"{' '.join(document.source.split())}\n".encode())

    def _write(self, encoded: list[npt.NDArray[np.int32]]) -> None:
        lengths = np.fromiter((len(ids) for ids in encoded), np.int64, len(encoded))
        lengths = lengths[lengths > 0]  # a sentence of characters that normalisation drops is none
        if not len(lengths):
            return
        self.files["ids.bin"].write(np.concatenate(encoded).astype(self.dtype))
        self.files["sentences.bin"].write((self.tokens + np.cumsum(lengths)).astype("<i8"))
        self.tokens += int(lengths.sum())
        self.sentences += len(lengths)

    def finish(self, heldout: float) -> None:
        """Offsets and flags of the documents, and the numbers for the manifest."""
        if not self.hashes:
            raise RelposError("data: the corpus has no sentences")
        if len(self.hashes) == 1:
            self._halve(heldout)
        self.files["documents.bin"].write(np.asarray(self.starts, "<i8"))
        self.files["heldout.bin"].write(chosen(np.asarray(self.hashes, np.uint64), heldout).astype("u1"))
        for file in self.files.values():
            file.flush()
        self.manifest = {
            "format": FORMAT, "dtype": self.dtype, "documents": len(self.hashes), "sentences": self.sentences, "tokens": self.tokens,
            "files": {name: {"bytes": file.size, "sha256": file.hash.hexdigest()} for name, file in self.files.items()},
        }  # fmt: skip

    def _halve(self, heldout: float) -> None:
        """A corpus of one document: its end becomes another, or nothing could be held out."""
        if self.sentences < 4:
            raise RelposError(f"data: the corpus has {self.sentences} sentences in one document, too few to hold some out")
        cut = self.sentences - max(2, round(heldout * self.sentences))
        self.starts = [0, cut, self.sentences]
        self.hashes = [1 << 63, 0]  # the end is what is held out
        self.files["sources.txt"].write(b"(its end)\n")


def chosen(hashes: npt.NDArray[np.uint64], share: float) -> npt.NDArray[np.bool_]:
    """Which documents are held out: those whose hash is below `share` of the range; if none, the lowest; if all, not
    the highest. A document is held out or not whatever stands beside it, and so are its copies."""
    below = hashes < np.uint64(share * 2**64)
    if not below.any():
        below = hashes == hashes.min()
    if below.all():
        below = hashes != hashes.max()
    if not below.any():  # nothing but copies of one document
        below[-1] = True
    return below


def _hashed(document: Document, content: hashlib.blake2b) -> Iterator[str]:
    for line in document.lines:
        content.update(document.fingerprint(line).encode())
        content.update(b"\n")
        yield line


class _File:
    """A file that knows its size and SHA-256."""

    def __init__(self, path: Path) -> None:
        self.file: BinaryIO = open(path, "wb", buffering=1 << 20)
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes | npt.NDArray[np.generic]) -> None:
        view = data if isinstance(data, bytes) else memoryview(np.ascontiguousarray(data)).cast("B")
        self.file.write(view)
        self.hash.update(view)
        self.size += len(view)

    def flush(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self, whole: bool) -> None:
        try:
            self.file.close()
        except OSError:
            if whole:
                raise

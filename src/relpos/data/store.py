"""A store of sentences on disk: tokens, where sentences and documents begin, and which documents
are held out.

    ids.bin         uint16 or uint32 (tokens,)      the sentences one after the other, without special ids
    sentences.bin   int64 (sentences + 1,)          where each begins in ids
    documents.bin   int64 (documents + 1,)          where each begins in sentences
    heldout.bin     uint8 (documents,)              1 = held out
    sources.txt     a line for each document        where it is from
    manifest.json   sizes and SHA-256 of the others; written last, so that a folder without it is no finished store

Little-endian, mapped into memory when read: opening costs nothing, and several processes share the
pages. When it is written, memory holds only a few portions of text, and of each document its name
and sixteen bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from relpos.data.documents import Document, portions, splitter
from relpos.data.examples import ExampleSet, PairExamples, WindowExamples
from relpos.data.heldout import ends
from relpos.data.tokenizer import OURS, Ids, Marks, TextIds, Tokenizer
from relpos.errors import RelposError, plural, say
from relpos.files import cannot_write, opened, write_json
from relpos.process import cores
from relpos.ranges import Count, Length, check, checked
from relpos.readers import known_sha256, read_json

MANIFEST = "manifest.json"
FIRST = 10_000  # tokens of which not all may be unknown
ITS_END = " (its end)"
"""Stands behind the name of a document's part that is held out, in sources.txt."""
_REMEDY = "delete the folder and run again"

MANY = 0.05  # unknown tokens, above which a line says so

PACKINGS: dict[str, type[ExampleSet]] = {"pair": PairExamples, "document": WindowExamples}
Packing = Literal["pair", "document"]


@dataclass(frozen=True)
class StoreFile:
    """A file of a store as the manifest has it."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The files of a store, and numbers about its text.

    Args:
        vocabulary: ids of its tokenizer.
        dtype: of ids.bin.
        unknown: tokens that the tokenizer does not know.
        dropped: kind → how often that was left out of the text.
        splitter: what cut the text into sentences.
        marks: the ids of the special tokens.
    """

    vocabulary: int
    dtype: Literal["<u2", "<u4"]
    documents: int
    sentences: int
    tokens: int
    files: dict[str, StoreFile]
    unknown: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    splitter: str = ""
    marks: Marks = OURS


class Store:
    """A finished store, open for reading; RelposError where it is missing, unfinished or
    damaged."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        path = self.folder / MANIFEST
        if not path.is_file():
            raise RelposError(
                f"store {self.folder}: no {MANIFEST}: there is no store, or it was not finished"
            )
        try:
            self.manifest: Manifest = read_json(path, Manifest)
        except RelposError as error:
            raise RelposError(f"store {self.folder}: {error}; {_REMEDY}") from None
        self.verify()
        self.vocabulary = self.manifest.vocabulary
        self.marks = self.manifest.marks
        self.ids = self._mapped("ids.bin", self.manifest.dtype)
        self.sentences = self._mapped("sentences.bin", "<i8")
        self.documents = self._mapped("documents.bin", "<i8")
        self.heldout = self._mapped("heldout.bin", "u1").astype(bool)

    @checked
    def examples(
        self,
        split: Literal["train", "heldout"],
        packing: str = "pair",
        length: Length = 128,
        limit: Count | None = None,
    ) -> ExampleSet:
        """The examples of a split ("train" or "heldout"); `limit` keeps so many, spread evenly over
        the store."""
        check("packing", packing, Packing)
        chosen = np.flatnonzero(self.heldout == (split == "heldout"))
        return PACKINGS[packing](
            self.ids,
            self.sentences,
            self.documents[chosen],
            self.documents[chosen + 1],
            length,
            limit,
            self.marks,
        )

    def counts(self) -> Ids:
        """(vocabulary,) how often each piece stands in the text that is not held out."""
        counts = np.zeros(self.vocabulary, np.int64)
        for document in np.flatnonzero(~self.heldout):
            first, last = self.sentences[self.documents[document : document + 2]]
            counts += np.bincount(self.ids[first:last], minlength=self.vocabulary)
        return counts

    def verify(self) -> None:
        """Compares every file's SHA-256 with the manifest's, once in a process; RelposError names
        the file that differs."""
        for name, entry in self.manifest.files.items():
            if known_sha256(self.folder / name) != entry.sha256:
                raise RelposError(
                    f"damaged store: {self.folder / name} is not what the manifest says; {_REMEDY}"
                )

    def _mapped(self, name: str, dtype: str) -> npt.NDArray[Any]:
        # A plain array over the map: indexing numpy's memmap class costs several times as much.
        return np.asarray(np.memmap(self.folder / name, dtype=dtype, mode="r"))


@cache
def tell(folder: Path) -> None:
    """Prints, once in a process, what was read into a store, what of it is held out, and what of
    the text was left out."""
    store = Store(folder)
    sizes = np.diff(store.sentences[store.documents])
    held = store.heldout.sum()
    names = (folder / "sources.txt").read_text(encoding="utf-8").splitlines()
    # in a store, a document and its end are two
    documents = sum(not name.endswith(ITS_END) for name in names)
    kinds = [f"{number:,} {kind}" for kind, number in store.manifest.dropped.items()]
    parts = "document or end of a document"
    if held != 1:
        parts = "documents or ends of documents"
    say(
        f"relpos: {plural(documents, 'document')}, {plural(len(store.sentences) - 1, 'sentence')}, "
        f"{plural(len(store.ids), 'token')}; held out "
        f"{sizes[store.heldout].sum() / sizes.sum():.2%} of the tokens, in "
        f"{held:,} {parts}; "
        f"left out {', '.join(kinds) or 'nothing'}"
    )
    if (unknown := store.manifest.unknown / len(store.ids)) > MANY:
        say(
            f"relpos: {unknown:.1%} of these tokens are unknown to the tokenizer; one made for "
            f"such text would know them"
        )


def write_store(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    folder: Path,
    heldout: float,
    processes: int | None = None,
    shuffle: int | None = None,
    alike: bool = False,
) -> None:
    """Writes a store into `folder`; its manifest comes last. The bytes do not depend on the number
    of processes.

    Args:
        heldout: share of the text that is held out: whole documents, and the ends of such as are
            too large.
        processes: encode the text; None: one for each processor.
        shuffle: words of the n-grams that are permuted within each sentence, see `ngrams_permuted`;
            None: text as it stands.
        alike: the documents are of one size, see `relpos.data.heldout`.

    Raises:
        RelposError: there is no sentence, or the disk is full.
    """
    from relpos.data.encoding import encoded  # for writing alone, as what shuffles

    folder.mkdir(parents=True, exist_ok=True)
    # First of all: a manifest that was there would vouch for half-written files.
    (folder / MANIFEST).unlink(missing_ok=True)
    words = None
    if shuffle:
        from relpos.data.shuffle import ngrams_permuted
        from relpos.data.words import Words

        words = Words(tokenizer)
    try:
        with _Writer(folder, tokenizer) as out:
            for item in encoded(_feed(documents), tokenizer, processes or cores()):
                if isinstance(item, _End):
                    out.end(item)
                else:
                    lengths, ids = item
                    if words and shuffle:
                        ids = ngrams_permuted(lengths, ids, out.sentences, words, shuffle)
                    out.add(lengths, ids)
            manifest = out.finish(heldout, alike)
    except OSError as error:
        raise cannot_write(folder, error) from error
    write_json(folder / MANIFEST, asdict(manifest))


@dataclass(frozen=True)
class _End:
    """The end of a document: where it is from, the 64-bit hash of its content, and what was left
    out of the text meanwhile."""

    source: str
    content: int
    dropped: Counter[str]


class _Writer:
    """The open files of a store."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        self.folder, self.tokenizer = folder, tokenizer
        self.dtype: Literal["<u2", "<u4"] = "<u4"
        if tokenizer.size <= 1 << 16:
            self.dtype = "<u2"
        names = "ids.bin", "sentences.bin", "documents.bin", "heldout.bin", "sources.txt"
        self.files = {name: opened(folder / name, "wb", buffering=1 << 20) for name in names}
        self.tokens, self.unknowns, self.sentences = 0, 0, 0
        self.starts = [0]  # of the documents, in sentences
        self.hashes: list[int] = []  # of the documents' content, 64 bits
        self.sources: list[str] = []
        self.dropped = Counter[str]()
        self.files["sentences.bin"].write(np.zeros(1, "<i8"))

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for name, file in self.files.items():
            if kind is None:
                file.close()
                continue
            # An error is on its way: one of closing, about the same full disk, must not take its
            # place.
            with suppress(OSError):
                file.close()
            (self.folder / name).unlink(missing_ok=True)

    def add(self, lengths: TextIds, ids: TextIds) -> None:
        """Sentences of the document that is being written."""
        self.files["ids.bin"].write(ids.astype(self.dtype))
        self.files["sentences.bin"].write(
            (self.tokens + np.cumsum(lengths, dtype=np.int64)).astype("<i8")
        )
        self.tokens += len(ids)
        self.unknowns += int((ids == self.tokenizer.unk).sum())
        self.sentences += len(lengths)
        if self.tokens >= FIRST:
            self._refuse_unknown()

    def _refuse_unknown(self) -> None:
        if self.tokens == self.unknowns:
            raise RelposError(
                f"tokenizer: it knows none of the text's first {self.tokens:,} "
                f"tokens; choose one made for such text"
            )

    def end(self, document: _End) -> None:
        """The end of a document; a document without a sentence is left out."""
        self.dropped += document.dropped
        if self.sentences > self.starts[-1]:
            self.starts.append(self.sentences)
            self.hashes.append(document.content)
            self.sources.append(" ".join(document.source.split()))
        else:
            self.dropped["documents without a sentence"] += 1

    def finish(self, heldout: float, alike: bool) -> Manifest:
        """Writes offsets and flags of the documents."""
        if not self.hashes:
            raise RelposError("data: the corpus has no sentences")
        self._refuse_unknown()
        self.files["sentences.bin"].flush()
        sentences = np.memmap(self.folder / "sentences.bin", dtype="<i8", mode="r")
        whole = np.asarray(self.starts)
        held = ends(np.asarray(self.hashes, np.uint64), whole, sentences, heldout, alike)
        behind = whole[1:] - held  # where held-out text begins
        starts = np.union1d(whole, behind)
        document = np.searchsorted(whole, starts[:-1], side="right") - 1
        flags = starts[:-1] >= behind[document]
        is_end = starts[:-1] > whole[document]
        lines = (
            self.sources[i] + ITS_END * bool(end) + "\n"
            for i, end in zip(document, is_end, strict=True)
        )
        self.files["sources.txt"].write("".join(lines).encode(errors="backslashreplace"))
        self.files["documents.bin"].write(starts.astype("<i8"))
        self.files["heldout.bin"].write(flags.astype("u1"))
        # Flushed before the manifest exists: after a power cut it must not stand beside incomplete
        # files.
        for file in self.files.values():
            file.flush()
            os.fsync(file.fileno())
        paths = {name: self.folder / name for name in self.files}
        return Manifest(
            vocabulary=self.tokenizer.size,
            dtype=self.dtype,
            documents=len(flags),
            sentences=self.sentences,
            tokens=self.tokens,
            files={
                name: StoreFile(path.stat().st_size, known_sha256(path))
                for name, path in paths.items()
            },
            unknown=self.unknowns,
            dropped=dict(self.dropped),
            splitter=splitter(),
            marks=self.tokenizer.marks,
        )


def _feed(documents: Iterable[Document]) -> Iterator[str | _End]:
    """The texts of all documents, an _End after each."""
    for document in documents:
        content = hashlib.blake2b(digest_size=8)
        yield from portions(_hashed(document, content))
        yield _End(
            document.source,
            int.from_bytes(content.digest(), "little"),
            Counter(document.dropped),
        )
        document.dropped.clear()


def _hashed(document: Document, content: hashlib.blake2b) -> Iterator[str]:
    for line in document.lines:
        content.update(f"{document.fingerprint(line)}\n".encode())
        yield line

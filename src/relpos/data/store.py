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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from relpos.data.documents import Document, portions
from relpos.data.examples import ExampleSet, PairExamples, WindowExamples
from relpos.data.heldout import Bools, Ints, ends
from relpos.data.tokenizer import OURS, Ids, Marks, Tokenizer
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
    splitter: str = ""
    marks: Marks = OURS


class Store:
    """A finished store, open for reading.

    Every file's SHA-256 is compared with the manifest's, once in a process.

    Raises:
        RelposError: it is missing, unfinished or damaged; names the file that differs.
    """

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
        for name, entry in self.manifest.files.items():
            if known_sha256(self.folder / name) != entry.sha256:
                raise RelposError(
                    f"damaged store: {self.folder / name} is not what the manifest says; {_REMEDY}"
                )
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

    def _mapped(self, name: str, dtype: str) -> npt.NDArray[Any]:
        # A plain array over the map: indexing numpy's memmap class costs several times as much.
        return np.asarray(np.memmap(self.folder / name, dtype=dtype, mode="r"))


@cache
def tell(folder: Path) -> None:
    """Prints, once in a process, what was read into a store, and of its tokens the shares that are
    held out and unknown."""
    store = Store(folder)
    sizes = np.diff(store.sentences[store.documents])
    sources = (folder / "sources.txt").read_text(encoding="utf-8")
    # a document and its held-out end are two in a store
    documents = store.manifest.documents - sources.count(f"{ITS_END}\n")
    say(
        f"relpos: {plural(documents, 'document')}, {plural(len(store.sentences) - 1, 'sentence')}, "
        f"{plural(len(store.ids), 'token')}; of the tokens "
        f"{sizes[store.heldout].sum() / sizes.sum():.2%} are held out, and "
        f"{store.manifest.unknown / len(store.ids):.2%} unknown to the tokenizer"
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
        heldout: share of the text that is held out: whole documents, and the ends of those that
            are too large.
        processes: that encode the text; None: one for each processor.
        shuffle: words of the n-grams that are permuted within each sentence, see `ngrams_permuted`;
            None: text as it stands.
        alike: the documents are of one size, see `relpos.data.heldout`.

    Raises:
        RelposError: there is no sentence, or the disk is full.
    """
    from relpos.data.encoding import encoded  # for writing alone, as the imports below

    folder.mkdir(parents=True, exist_ok=True)
    # First of all: a manifest that was there would vouch for half-written files.
    (folder / MANIFEST).unlink(missing_ok=True)
    words = None
    if shuffle:
        from relpos.data.shuffle import ngrams_permuted
        from relpos.data.words import Words

        words = Words(tokenizer)
    dtype: Literal["<u2", "<u4"] = "<u4"
    if tokenizer.size <= 1 << 16:
        dtype = "<u2"
    tokens = unknown = sentences = 0
    starts = [0]  # of the documents, in sentences
    hashes: list[int] = []  # of the documents' content, 64 bits
    sources: list[str] = []
    try:
        with _opened(folder) as files:
            files["sentences.bin"].write(np.zeros(1, "<i8").data)
            for item in encoded(_feed(documents), tokenizer, processes or cores()):
                if isinstance(item, _End):
                    if sentences > starts[-1]:
                        starts.append(sentences)
                        hashes.append(item.content)
                        sources.append(" ".join(item.source.split()))
                    continue
                lengths, ids = item
                if words and shuffle:
                    ids = ngrams_permuted(lengths, ids, sentences, words, shuffle)
                files["ids.bin"].write(ids.astype(dtype).data)
                ends_of_sentences = tokens + np.cumsum(lengths, dtype=np.int64)
                files["sentences.bin"].write(ends_of_sentences.astype("<i8").data)
                tokens += len(ids)
                unknown += int((ids == tokenizer.unk).sum())
                sentences += len(lengths)
                if tokens >= FIRST:
                    _refuse_unknown(tokens, unknown)
            if not hashes:
                raise RelposError("data: the corpus has no sentences")
            _refuse_unknown(tokens, unknown)
            files["sentences.bin"].flush()
            offsets = np.memmap(folder / "sentences.bin", dtype="<i8", mode="r")
            whole = np.asarray(starts)
            held = ends(np.asarray(hashes, np.uint64), whole, offsets, heldout, alike)
            bounds, flags, lines = _divided(whole, held, sources)
            files["sources.txt"].write(lines.encode(errors="backslashreplace"))
            files["documents.bin"].write(bounds.astype("<i8").data)
            files["heldout.bin"].write(flags.astype("u1").data)
            # Flushed before the manifest exists: after a power cut it must not stand beside
            # incomplete files.
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())
            manifest = Manifest(
                vocabulary=tokenizer.size,
                dtype=dtype,
                documents=len(flags),
                sentences=sentences,
                tokens=tokens,
                files={
                    path.name: StoreFile(path.stat().st_size, known_sha256(path))
                    for path in map(folder.joinpath, files)
                },
                unknown=unknown,
                splitter=f"sentencex {version('sentencex')}",
                marks=tokenizer.marks,
            )
    except OSError as error:
        raise cannot_write(folder, error) from error
    write_json(folder / MANIFEST, asdict(manifest))


def _divided(whole: Ints, held: Ints, sources: Sequence[str]) -> tuple[Ints, Bools, str]:
    """The documents as the store has them, in which one with a held-out end is two.

    Args:
        whole: (documents + 1,) where each begins, in sentences, and the end of the last one.
        held: (documents,) sentences that are held out, at the end of each.
        sources: (documents,) where each is from.

    Returns:
        Bounds in sentences, which documents are held out, and a line for each of them.
    """
    behind = whole[1:] - held  # where held-out text begins
    bounds = np.union1d(whole, behind)
    begins = bounds[:-1]
    document = np.searchsorted(whole, begins, side="right") - 1
    is_end = begins > whole[document]
    lines = (
        sources[i] + ITS_END * bool(end) + "\n" for i, end in zip(document, is_end, strict=True)
    )
    return bounds, begins >= behind[document], "".join(lines)


@contextmanager
def _opened(folder: Path) -> Iterator[dict[str, IO[bytes]]]:
    """The files of a store, to be written; an error leaves none of them."""
    names = "ids.bin", "sentences.bin", "documents.bin", "heldout.bin", "sources.txt"
    files = {name: opened(folder / name, "wb", buffering=1 << 20) for name in names}
    try:
        yield files
    except BaseException:
        for name in names:
            (folder / name).unlink(missing_ok=True)
        raise
    finally:
        for file in files.values():
            # An error of closing, about the same full disk, must not take another one's place;
            # where there is none, all is flushed.
            with suppress(OSError):
                file.close()


def _refuse_unknown(tokens: int, unknown: int) -> None:
    if tokens == unknown:
        raise RelposError(
            f"tokenizer: it knows none of the text's first {tokens:,} tokens; choose one made for "
            "such text"
        )


@dataclass(frozen=True)
class _End:
    """The end of a document: where it is from, and the 64-bit hash of its content."""

    source: str
    content: int


def _feed(documents: Iterable[Document]) -> Iterator[str | _End]:
    """The texts of all documents, an _End after each."""
    for document in documents:
        content = hashlib.blake2b(digest_size=8)
        yield from portions(_hashed(document, content))
        yield _End(document.source, int.from_bytes(content.digest(), "little"))


def _hashed(document: Document, content: hashlib.blake2b) -> Iterator[str]:
    for line in document.lines:
        content.update(f"{document.fingerprint(line)}\n".encode())
        yield line

"""A store of sentences on disk: tokens, where sentences and documents begin, and which documents are held out.

    ids.bin         uint16 or uint32 (tokens,)      the sentences one after the other, without special ids
    sentences.bin   int64 (sentences + 1,)          where each begins in ids
    documents.bin   int64 (documents + 1,)          where each begins in sentences
    heldout.bin     uint8 (documents,)              1 = held out
    sources.txt     a line for each document        where it is from
    manifest.json   sizes and SHA-256 of the others; written last, so that a folder without it is no finished store

Little-endian, mapped into memory when read: opening costs nothing, and several processes share the pages.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from relpos.data.examples import Examples, Pairs, Windows
from relpos.data.marks import Marks
from relpos.data.writer import FORMAT, MANIFEST, write_store
from relpos.errors import RelposError, one_line, say
from relpos.ranges import Count, Length, check, checked
from relpos.readers import known_sha256, read_json

__all__ = ["Store", "write_store"]

PACKINGS: dict[str, type[Examples]] = {"pair": Pairs, "document": Windows}
Packing = Literal["pair", "document"]


class Store:
    """A finished store, open for reading; RelposError where it is missing, unfinished or damaged."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.manifest = self._checked_manifest()
        self.verify()
        self.vocabulary = int(self.manifest["vocabulary"])
        self.marks = Marks(**self.manifest.get("marks", {}))
        self.ids = self._mapped("ids.bin", self.manifest["dtype"])
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
    ) -> Examples:
        """The examples of a split ("train" or "heldout"); `limit` keeps so many, spread evenly over the store."""
        check("packing", packing, Packing)
        chosen = np.flatnonzero(self.heldout == (split == "heldout"))
        return PACKINGS[packing](
            self.ids, self.sentences, self.documents[chosen], self.documents[chosen + 1], length, limit, self.marks
        )

    def verify(self) -> None:
        """Compares every file's SHA-256 with the manifest's, once in a process; RelposError names the file that differs."""
        for name, entry in self.manifest["files"].items():
            if known_sha256(self.folder / name) != entry["sha256"]:
                raise RelposError(f"damaged store: {self.folder / name} is not what the manifest says; {_REMEDY}")

    def _checked_manifest(self) -> dict[str, Any]:
        path = self.folder / MANIFEST
        if not path.is_file():
            raise RelposError(f"store {self.folder}: no {MANIFEST}: there is no store, or it was not finished")
        try:
            manifest: dict[str, Any] = read_json(path, dict)
            # Every key that is read later, too: what lacks one is refused here.
            version, *_ = (
                manifest["format"],
                int(manifest["vocabulary"]),
                np.dtype(manifest["dtype"]),
                manifest.get("marks", {}).items(),
            )
            files = {name: (entry["bytes"], entry["sha256"]) for name, entry in manifest["files"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RelposError(f"store {self.folder}: {MANIFEST} cannot be read: {one_line(error)}; {_REMEDY}") from None
        if version != FORMAT:
            raise RelposError(f"store {self.folder}: format {version}, this version reads {FORMAT}; {_REMEDY}")
        for name, (expected, _) in files.items():
            file = self.folder / name
            size = file.stat().st_size if file.is_file() else 0
            if size != expected:
                raise RelposError(f"truncated store: {file} has {size} bytes, manifest says {expected}; {_REMEDY}")
        return manifest

    def _mapped(self, name: str, dtype: str) -> npt.NDArray[Any]:
        # A plain array over the map: indexing numpy's memmap class costs several times as much.
        return np.asarray(np.memmap(self.folder / name, dtype=dtype, mode="r"))


@cache
def tell(folder: Path) -> None:
    """Prints, once in a process, what was read into a store, what of it is held out, and what of the text was left out."""
    store = Store(folder)
    sizes = np.diff(store.sentences[store.documents])
    kinds = [f"{number:,} {kind}" for kind, number in store.manifest.get("dropped", {}).items()]
    say(
        f"relpos: {len(sizes):,} documents, {len(store.sentences) - 1:,} sentences, {len(store.ids):,} tokens; held out "
        f"{sizes[store.heldout].sum() / sizes.sum():.2%} of the tokens, in {store.heldout.sum():,} documents or ends of documents; "
        f"left out {', '.join(kinds) or 'nothing'}"
    )


_REMEDY = "delete the folder and run again"

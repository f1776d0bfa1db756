"""Where text comes from: a folder or files (`Files`), the Hugging Face hub (`Hub`), or the
generated language (`Toy`).

The keys of `conf/data/*.yaml` are the constructor arguments here. A source gives its `identity`,
for which at most the hashes of its files are computed, and yields its documents. It writes nothing
but a cache of these hashes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from relpos.data import hub
from relpos.data.documents import Document, documents_of
from relpos.data.filehash import Identity, described, described_folder
from relpos.data.textfile import MARKDOWN, SUFFIXES, blocks, suffix
from relpos.errors import RelposError
from relpos.places import expanded, folder_of
from relpos.ranges import Count, Natural, Share
from relpos.readers import besides, check_all_recorded

if TYPE_CHECKING:
    from relpos.data.glue import HubGlue, TsvGlue

COLUMN = "text"
KINDS: tuple[tuple[str, ...], ...] = (SUFFIXES, tuple(hub.TABLES), MARKDOWN)
"""Ends of the names of text files, of tables with a column of text, and of Markdown. A folder is
read for the first kind that it has: a README.md, or a table of where texts are from, is no text
beside texts."""
# Raise it when other text is made of the same files: it stands in the identity of every run on text
# that is not generated.
READING = 2


@dataclass(frozen=True, kw_only=True)
class TextSource:
    """Keys of every source; conf/data explains them."""

    pairs: Count | None = None
    heldout: Share = 0.01  # of the text
    sample: Count = 2_000_000  # sentences a tokenizer is trained on
    shuffle: Count | None = None

    alike: ClassVar[bool] = False
    """Whether the documents are of one size, as generated ones are: whole ones are then held out,
    see `relpos.data.heldout`."""

    def characters(self) -> int | None:
        """About how much text there is, for a progress bar; None where that is not known before it
        is read."""
        return None


@dataclass(frozen=True)
class Files(TextSource):
    """Files of one kind (see KINDS) in a folder of any depth, or one file, by their names. Links to
    folders are followed.

    `root` holds `corpus/` and `glue/`; `corpus` and `glue` name one of them and take precedence.
    Relative names are looked up below the folder that RELPOS_DATA names, where it is set; where
    none of the three is given, that folder is the root.

    `text` is the column of tables, by default COLUMN; `lines` rows make a document.
    """

    root: str | None = None
    corpus: str | None = None
    glue: str | None = None
    text: str | None = None
    lines: Count = 1

    def corpus_location(self) -> Path:
        """The folder (or single file) of text; RelposError where nothing names one."""
        return _place(self.corpus, self.root, "corpus")

    def glue_location(self) -> TsvGlue:
        """The folder of GLUE's task folders; RelposError where nothing names one."""
        from relpos.data.glue import TsvGlue  # for fine-tunings alone, as below

        return TsvGlue(_place(self.glue, self.root, "glue"))

    def files(self) -> list[Path]:
        """The files that are read, sorted by name; RelposError where there is no folder or no text
        in it."""
        place = self.corpus_location()
        if not place.exists():
            raise RelposError(f"data.corpus: there is no folder or file {place}")
        candidates = [place]
        if not place.is_file():
            candidates = sorted(_files(place))
        kinds, column = KINDS, ""
        if self.text is not None:  # whoever names a column means tables
            kinds, column = KINDS[1:2], f"data.text={self.text} is a column of a table, and "
        for kind in kinds:
            if texts := [path for path in candidates if suffix(path) in kind]:
                return texts
        suffixes = ", ".join(sorted({suffix(path) for path in candidates} - {""})[:5])
        instead = ""
        if suffixes and place.is_dir():
            instead = f"; it has {suffixes}, which are not read"
        missing = f"no text file ({', '.join(sum(kinds, ()))}, or these in gz, xz, zst)"
        raise RelposError(f"data.corpus: {column}{missing} in {place}{instead}")

    def identity(self) -> Identity | None:
        """Name, size and SHA-256 of every file, of tables also the column and the rows of a
        document; None where there is no corpus."""
        try:
            files = self.files()
        except RelposError:
            return None
        identity: Identity = {"files": described(files, self.corpus_location())}
        if suffix(files[0]) in hub.TABLES:
            identity |= {"text": self.text or COLUMN, "lines": self.lines}
        return identity

    def glue_identity(self, task: Mapping[str, object]) -> Identity | None:
        """Name, size and SHA-256 of the files of one task's folder but for hidden ones; None where
        it is absent."""
        try:
            place = self.glue_location().folder
        except RelposError:
            return None
        if files := described_folder(place / str(task["folder"]), place):
            return {"files": files}
        return None

    def characters(self) -> int | None:
        """The bytes of all files; None where one is compressed or a table."""
        files = self.files()
        if all(path.suffix in (*SUFFIXES, *MARKDOWN) for path in files):
            return sum(path.stat().st_size for path in files)
        return None

    def documents(self) -> Iterator[Document]:
        """The documents of all files, one file after the other."""
        folder = folder_of(self.corpus_location())
        for path in self.files():
            name = path.relative_to(folder).as_posix()
            if suffix(path) in hub.TABLES:
                yield from hub.documents_of_file(name, path, self.text or COLUMN, self.lines)
            else:
                yield from documents_of(name, blocks(path))


class Generated(Files):
    """Files with generated text."""

    alike = True


@dataclass(frozen=True)
class Hub(TextSource):
    """Data sets of the Hugging Face hub, or local folders in its layout, one after the other; GLUE
    by its id.

    `texts`: mappings with `id` and, where needed, `config`, `revision`, `split`, `text` (the name
    of the column), and `unique: true`, which leaves out repeated books
    (`relpos.data.hub.without_repeats`). Rows without WikiText's headings make documents of `lines`
    rows. `streaming` reads over the network and stores nothing.
    """

    texts: Sequence[Mapping[str, object]]
    streaming: bool = False
    lines: Count = 5_000
    glue: str = "nyu-mll/glue"
    glue_revision: str | None = None
    revisions: dict[str, str] = field(default_factory=dict, init=False, compare=False)
    """Id, with `@` the revision that is asked for → the commit that `documents` has read."""

    def identity(self) -> Identity | None:
        """Ids and revisions, or the content of folders; configurations, splits, columns; whether
        repeated books are left out."""
        return {
            "hub": [hub.identified(asdict(hub.checked(text))) for text in self.texts],
            "lines": self.lines,
        }

    def glue_location(self) -> HubGlue:
        """GLUE on the hub."""
        from relpos.data.glue import HubGlue

        return HubGlue(self.glue, self.glue_revision)

    def glue_identity(self, task: Mapping[str, object]) -> Identity | None:
        """Id, configuration and revision of the data set; of a folder its content."""
        return {
            "hub": hub.identified(
                {"id": self.glue, "config": task["name"], "revision": self.glue_revision}
            )
        }

    def documents(self) -> Iterator[Document]:
        """The documents of all data sets, one data set after the other."""
        for text in map(hub.checked, self.texts):
            if commit := hub.commit(text):
                self.revisions["@".join(filter(None, (text.id, text.revision)))] = commit
            yield from hub.documents(text, self.lines, self.streaming)


@dataclass(frozen=True, kw_only=True)
class Toy(TextSource):
    """The generated language. It must be written into a folder first (`relpos.data.toy.write`);
    `at(folder)` then reads it."""

    seed: Natural = 0
    heldout: Share = 0.05
    sample: Count = 200_000

    def identity(self) -> Identity | None:
        """The generator's version and its keys."""
        from relpos.data import toy

        return {"toy": toy.VERSION, "seed": self.seed}

    def at(self, folder: Path) -> Files:
        """The files that the generator has written into `folder`, as a source.

        Raises:
            RelposError: one of them has changed, or there are more.
        """
        check_all_recorded(folder)
        return Generated(root=str(folder.absolute()), **besides(vars(self), ["seed"]))


def _place(folder: str | None, root: str | None, name: str) -> Path:
    """`folder`, else `root`/`name`, else $RELPOS_DATA/`name`; relative names below $RELPOS_DATA,
    where it is set."""
    home = os.getenv("RELPOS_DATA")
    base = Path.cwd() / expanded(home or "")
    if folder is not None:
        return base / expanded(folder)
    if root is not None or home:
        return base / expanded(root or "") / name
    raise RelposError(
        f"data.root: no folder of data is given; give data.root=FOLDER, "
        f"data.{name}=FOLDER or RELPOS_DATA"
    )


def _files(place: Path) -> Iterator[Path]:
    """The files below a folder but for hidden ones. Each folder is read once, because links may
    form a circle."""
    visited = set()
    # Links wait until all that `walk` reaches without them is read: a link to a folder inside
    # `place` then changes no file's name.
    starts = [place]
    for start in starts:
        for folder, folders, names in os.walk(start):
            if (real := os.path.realpath(folder)) in visited:
                folders.clear()
                continue
            visited.add(real)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            starts += filter(Path.is_symlink, (Path(folder, name) for name in folders))
            shown = (Path(folder, name) for name in names if not name.startswith("."))
            yield from filter(Path.is_file, shown)

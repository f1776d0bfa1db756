"""Minimal pairs: two sentences of which one is grammatical, by paradigm. Where they come from, and how they are read.

text     two lines for a pair, the bad sentence and then the good one (Zorro, Huebner et al. 2021); the paradigm is the file's name
JSON     one line for a pair, with `sentence_good` and `sentence_bad` (BLiMP, Warstadt et al. 2020); the paradigm is its `UID`
hub      `nyu-mll/blimp`, a configuration for each paradigm
toy      the embedded language's own, made by its grammar
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from relpos.data.filehash import described
from relpos.data.textfile import blocks
from relpos.errors import RelposError
from relpos.ranges import Count, Natural, checked

SUFFIXES = (".txt", ".jsonl")


@dataclass(frozen=True)
class Pair:
    """`place` says where the pair stands, for messages."""

    paradigm: str
    good: str
    bad: str
    place: str

    @property
    def has_same_words(self) -> bool:
        """Whether both sentences hold the same words as they are written, whatever their case; a tokenizer may see it otherwise."""
        good, bad = (Counter(re.findall(r"\w+|[^\w\s]", text.lower())) for text in (self.good, self.bad))
        return good == bad


class PairSource(Protocol):
    """Where pairs come from."""

    def pairs(self) -> list[Pair]:
        """All pairs, in order; RelposError where one cannot be read."""

    def identity(self) -> dict[str, Any]:
        """Plain values that change when the pairs do."""


class PairFiles:
    """A file of pairs, or a folder of them.

    Args:
        path: a `.txt` or `.jsonl` file, or a folder with such files.
        limit: how many pairs of each paradigm are taken, the first by the hash of their text; None: all.
        others: how many of those pairs whose sentences do not hold the same words; `limit` then counts the other pairs alone.
            None: `limit` counts all pairs.
    """

    @checked
    def __init__(self, path: str | Path, limit: Count | None = None, others: Natural | None = None) -> None:
        self.path, self.limit, self.others = Path(path), limit, others

    def files(self) -> list[Path]:
        """Raises: RelposError where there is none."""
        if not self.path.exists():
            raise RelposError(f"pairs={self.path}: no such file or folder")
        files = sorted(file for file in self.path.iterdir() if file.suffix in SUFFIXES) if self.path.is_dir() else [self.path]
        if not files or files[0].suffix not in SUFFIXES:
            raise RelposError(f"pairs={self.path}: a file {' or '.join(SUFFIXES)} is expected, or a folder that holds some")
        return files

    def pairs(self) -> list[Pair]:
        """Raises: RelposError names file and line."""
        return limited([pair for file in self.files() for pair in read(file)], self.limit, self.others)

    def identity(self) -> dict[str, Any]:
        """The files by name, size and hash."""
        root = self.path.parent if self.path.is_file() else self.path
        return {"files": described(self.files(), root)} | _limits(self.limit, self.others)


class Blimp:
    """BLiMP from the Hugging Face hub; a folder of its JSON lines is read by `PairFiles`.

    Args:
        id: the data set.
        revision: of the data set.
        limit, others: as of `PairFiles`.
    """

    @checked
    def __init__(
        self,
        id: str = "nyu-mll/blimp",
        revision: str | None = None,
        limit: Count | None = None,
        others: Natural | None = None,
    ) -> None:
        self.id, self.revision, self.limit, self.others = id, revision, limit, others

    def pairs(self) -> list[Pair]:
        """Raises: RelposError where the data set cannot be loaded."""
        try:
            import datasets

            pairs = [
                Pair(paradigm, row["sentence_good"], row["sentence_bad"], f"{self.id} {paradigm}, row {number}")
                for paradigm in datasets.get_dataset_config_names(self.id, revision=self.revision)
                for number, row in enumerate(datasets.load_dataset(self.id, paradigm, revision=self.revision, split="train"), 1)
            ]
        except Exception as error:  # the hub, the network and broken files raise errors of many unrelated types
            raise RelposError(f"pairs: {self.id}: {' '.join(str(error).split()) or type(error).__name__}") from error
        return limited(pairs, self.limit, self.others)

    def identity(self) -> dict[str, Any]:
        """A data set is known by its name and revision."""
        return {"id": self.id, "revision": self.revision} | _limits(self.limit, self.others)


class ToyPairs:
    """The embedded language's pairs.

    Args:
        seed: of the draws.
        count: pairs of each paradigm.
        limit, others: as of `PairFiles`.
    """

    @checked
    def __init__(self, seed: Natural = 0, count: Count = 200, limit: Count | None = None, others: Natural | None = None) -> None:
        self.seed, self.count, self.limit, self.others = seed, count, limit, others

    def pairs(self) -> list[Pair]:
        """The same on every machine."""
        from relpos.data.toy.pairs import PARADIGMS, draw

        made = [(name, draw(name, self.seed, self.count)) for name in PARADIGMS]
        return limited(
            [Pair(name, good, bad, f"{name} {number}") for name, drawn in made for number, (good, bad) in enumerate(drawn, 1)],
            self.limit,
            self.others,
        )

    def identity(self) -> dict[str, Any]:
        """Version of the grammar's pairs, and the arguments."""
        from relpos.data.toy.pairs import VERSION

        return {"toy": VERSION, "seed": self.seed, "count": self.count} | _limits(self.limit, self.others)


class AutoPairs:
    """The pairs that suit a network.

    Args:
        zorro: the folder of Zorro's files.
        limit, others: as of `PairFiles`.
    """

    @checked
    def __init__(self, zorro: str, limit: Count | None = None, others: Natural | None = None) -> None:
        self.zorro, self.limit, self.others = Path(zorro), limit, others

    def suited(self, toy: bool) -> PairSource | None:
        """The embedded language's own for a network of that language, else Zorro; None where there is no folder of Zorro."""
        if toy:
            return ToyPairs(limit=self.limit, others=self.others)
        return PairFiles(self.zorro, self.limit, self.others) if self.zorro.is_dir() else None


def limited(pairs: Iterable[Pair], limit: int | None, others: int | None = None) -> list[Pair]:
    """The pairs of each paradigm whose text has the smallest SHA-256, in their order.

    Args:
        pairs: all there are.
        limit: so many of each paradigm; None: all.
        others: so many of those that do not hold the same words; `limit` then counts those that do. None: they count alike.
    """
    pairs = list(pairs)
    if limit is None and others is None:
        return pairs
    ranked: dict[tuple[str, bool], list[tuple[str, int]]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        group = pair.paradigm, others is not None and not pair.has_same_words
        # By hash and not by place: the choice does not depend on the order of the file.
        ranked[group].append((hashlib.sha256(f"{pair.good}\n{pair.bad}".encode()).hexdigest(), number))
    limits = {False: limit, True: others}
    kept = {number for (_, is_other), entries in ranked.items() for _, number in sorted(entries)[: limits[is_other]]}
    return [pair for number, pair in enumerate(pairs) if number in kept]


def _limits(limit: int | None, others: int | None) -> dict[str, int | None]:
    """The limits as part of an identity; `others` only where it is set, so that results from before it existed are found."""
    return {"limit": limit} | ({} if others is None else {"others": others})


def read(path: Path) -> list[Pair]:
    """The pairs of a file.

    Raises:
        RelposError: file and line of what is no pair.
    """
    lines = "".join(blocks(path)).split("\n")
    if lines[-1] == "":
        lines.pop()
    if not any(line.strip() for line in lines):
        raise RelposError(f"{path}, line 1: the file is empty; pairs of sentences are expected")
    return list(_of_json(path, lines) if path.suffix == ".jsonl" else _of_text(path, lines))


def _of_text(path: Path, lines: list[str]) -> Iterator[Pair]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise RelposError(f"{path}, line {number}: an empty line; odd lines hold bad sentences, even lines good ones")
    if len(lines) % 2:
        raise RelposError(f"{path}, line {len(lines)}: an odd number of lines: the last bad sentence has no good one after it")
    for number in range(0, len(lines), 2):
        yield Pair(path.stem, lines[number + 1].strip(), lines[number].strip(), f"{path}, line {number + 1}")


def _of_json(path: Path, lines: list[str]) -> Iterator[Pair]:
    for number, line in enumerate(lines, 1):
        place = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except ValueError:
            raise RelposError(f"{place}: not a line of JSON") from None
        texts = [row.get(key) if isinstance(row, dict) else None for key in ("sentence_good", "sentence_bad")]
        for key, text in zip(("sentence_good", "sentence_bad"), texts, strict=True):
            if not isinstance(text, str) or not text.strip():
                raise RelposError(f"{place}: no text under {key!r}")
        good, bad = (str(text).strip() for text in texts)
        yield Pair(str(row.get("UID") or path.stem), good, bad, place)

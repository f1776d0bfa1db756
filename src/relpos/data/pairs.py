"""Minimal pairs, and larger sets of texts of which one is right, by paradigm: their sources and
their formats.

text     two lines for a pair, the bad sentence and then the good one (Zorro, Huebner et al. 2021); the paradigm is the file's name
JSON     one line for a pair or set, in one of the formats of `FORMATS`, which are known by their fields
toy      the embedded language's own, made by its grammar
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from relpos.data.filehash import Identity, described
from relpos.data.table import Fields, objects
from relpos.data.textfile import lines
from relpos.errors import RelposError
from relpos.places import expanded
from relpos.ranges import Count, Natural

SUFFIXES = (".txt", ".jsonl")


MOST = 9
"""Texts of a set: a set in which several are tied is kept as one digit."""


@dataclass(frozen=True)
class PairItem:
    """A minimal pair or a larger set.

    Args:
        paradigm: its kind.
        texts: the right one is the first.
        place: where the item stands, for messages.
        given: the beginning of each text, which is read and not scored; empty: all is scored.
    """

    paradigm: str
    texts: tuple[str, ...]
    place: str
    given: tuple[str, ...] = ()

    @property
    def has_same_words(self) -> bool:
        """Whether all texts hold the same words as they are written, whatever their case; a
        tokenizer may see it otherwise."""
        bags = [Counter(re.findall(r"\w+|[^\w\s]", text.lower())) for text in self.texts]
        return all(bag == bags[0] for bag in bags)


@dataclass(frozen=True, kw_only=True)
class PairSource(ABC):
    """Where pairs come from.

    Args:
        limit: how many pairs of each paradigm are taken, the first by the hash of their text; None:
            all.
        others: how many pairs of each paradigm whose sentences do not hold the same words; `limit`
            then counts those that do. None: `limit` counts all pairs.
    """

    limit: Count | None = None
    others: Natural | None = None

    @abstractmethod
    def all(self) -> list[PairItem]:
        """All pairs there are, in order; RelposError where one cannot be read, which names file and
        line."""

    @abstractmethod
    def origin(self) -> Identity:
        """Plain values that change when these pairs do."""

    def pairs(self) -> list[PairItem]:
        """The pairs that are taken, in their order: of each paradigm those whose text has the
        smallest SHA-256.

        Raises:
            RelposError: as `all`.
        """
        pairs = self.all()
        groups: dict[tuple[str, bool], list[int]] = defaultdict(list)
        # By hash and not by place: the choice does not depend on the order of the file.
        hashes = [hashlib.sha256("\n".join(pair.texts).encode()).digest() for pair in pairs]
        for number in sorted(range(len(pairs)), key=hashes.__getitem__):
            is_other = self.others is not None and not pairs[number].has_same_words
            groups[pairs[number].paradigm, is_other].append(number)
        taken: list[int] = []
        for (_, is_other), numbers in groups.items():
            taken += numbers[: self.others if is_other else self.limit]
        return [pairs[number] for number in sorted(taken)]

    def identity(self) -> Identity:
        """Plain values that change when the pairs that are taken do."""
        identity = self.origin() | {"limit": self.limit}
        if self.others is not None:
            identity["others"] = self.others
        return identity


@dataclass(frozen=True)
class PairFiles(PairSource):
    """A file of pairs, or a folder of them."""

    path: str | Path

    def files(self) -> list[Path]:
        """Raises: RelposError where there is none."""
        path = expanded(self.path)
        if not path.exists():
            raise RelposError(f"pairs={path}: no such file or folder")
        candidates = [path]
        if path.is_dir():  # without `._a.txt`, which macOS puts beside `a.txt`
            candidates = [file for file in path.iterdir() if file.name[0] != "." and file.is_file()]
        files = sorted(file for file in candidates if file.suffix in SUFFIXES)
        if not files:
            raise RelposError(
                f"pairs={path}: a file {' or '.join(SUFFIXES)} is expected, or a "
                f"folder that holds some"
            )
        return files

    def all(self) -> list[PairItem]:
        return [pair for file in self.files() for pair in read(file)]

    def origin(self) -> Identity:
        return {"files": described(self.files(), expanded(self.path))}


@dataclass(frozen=True)
class ToyPairs(PairSource):
    """The embedded language's pairs."""

    seed: Natural = 0
    count: Count = 200

    def all(self) -> list[PairItem]:
        from relpos.data.toy.pairs import PARADIGMS, draw

        return [
            PairItem(name, texts, f"{name} {number}")
            for name in PARADIGMS
            for number, texts in enumerate(draw(name, self.seed, self.count), 1)
        ]

    def origin(self) -> Identity:
        from relpos.data.toy.pairs import VERSION

        return {"toy": VERSION, "seed": self.seed, "count": self.count}


@dataclass(frozen=True)
class AutoPairs:
    """The pairs that suit a network."""

    zorro: str
    limit: Count | None = None
    others: Natural | None = None

    def suited(self, toy: bool) -> PairSource | None:
        """The embedded language's own for a network of that language, else Zorro; None where there
        is no folder of Zorro."""
        if toy:
            return ToyPairs(limit=self.limit, others=self.others)
        if expanded(self.zorro).is_dir():
            return PairFiles(self.zorro, limit=self.limit, others=self.others)
        return None


def read(path: Path) -> list[PairItem]:
    """The pairs or sets of a file.

    Raises:
        RelposError: names the file and the line that holds no pair.
    """
    if path.suffix == ".jsonl":
        return list(_json_items(path))
    return list(_text_pairs(path))


def _text_pairs(path: Path) -> Iterator[PairItem]:
    sentences = []
    for number, line in lines(path):
        if not line.strip():
            raise RelposError(
                f"{path}, line {number}: an empty line; odd lines hold bad "
                f"sentences, even lines good ones"
            )
        sentences.append(line.strip())
    if len(sentences) % 2:
        raise RelposError(
            f"{path}, line {len(sentences)}: an odd number of lines: the last bad "
            f"sentence has no good one after it"
        )
    for number in range(0, len(sentences), 2):
        bad, good = sentences[number : number + 2]
        yield PairItem(path.stem, (good, bad), f"{path}, line {number + 1}")


def _json_items(path: Path) -> Iterator[PairItem]:
    for number, fields in objects(path):
        place = f"{path} line {number}"
        # One field is enough, so that a line that lacks another one is refused by that field's
        # name.
        keys = next((keys for keys in FORMATS if not fields.keys().isdisjoint(keys)), None)
        if keys is None:
            formats = "; ".join(map(" and ".join, FORMATS))
            raise RelposError(
                f"{place}: of no known format; the fields of one are expected: {formats}"
            )
        if keys == ENTITIES:
            yield _entities(fields, path.stem, place)
            continue
        right, wrong, *target = (_text(fields, key, place).strip() for key in keys)
        paradigm = str(fields.get(FORMATS[keys]) or path.stem)
        if target:
            yield _continued(paradigm, (f"{right} ", f"{wrong} "), target * 2, place)
        else:
            yield PairItem(paradigm, (right, wrong), place)


def _entities(fields: Fields, stem: str, place: str) -> PairItem:
    prefix, options, number = _text(fields, ENTITIES[0], place), *map(fields.get, ENTITIES[1:])
    listed = options if isinstance(options, list) else ()
    texts = [text for text in listed if isinstance(text, str) and text.strip()]
    if not 2 <= len(texts) <= MOST or texts != options:
        raise RelposError(f"{place}: options: 2 to {MOST} texts are expected")
    # To isinstance a truth value is an int, but in a file it is no number.
    if type(number) is not int:
        raise RelposError(f"{place}: no number under 'numops'")
    return _continued(f"{stem}_{number}_ops", [prefix] * len(texts), texts, place)


def _text(fields: Fields, key: str, place: str) -> str:
    text = fields.get(key)
    if not isinstance(text, str) or not text.strip():
        raise RelposError(f"{place}: no text under {key!r}")
    return text


def _continued(
    paradigm: str,
    prefixes: Sequence[str],
    scored: Sequence[str],
    place: str,
) -> PairItem:
    texts = tuple(before + after for before, after in zip(prefixes, scored, strict=True))
    return PairItem(paradigm, texts, place, tuple(prefixes))


ENTITIES = "input_prefix", "options", "numops"
FORMATS = {
    ("sentence_good", "sentence_bad"): "UID",
    ("Context1", "Context2", "Target1"): "Domain",
    ("prefix_acceptable", "prefix_unacceptable", "property_phrase"): "",
    ENTITIES: "",
}
"""Fields that identify a format of JSON lines → the field with the paradigm, by default the file's
name.

- BLiMP (Warstadt et al. 2020), and BabyLM's supplement, which has no `UID`.
- EWoK (Ivanova et al. 2024): the first target must be likelier after its own context than after the
  other one. The other target has a line of its own, in which contexts and targets are exchanged.
- COMPS (Misra et al. 2023): the property must be likelier of the concept that has it.
- Entity tracking (Kim & Schuster 2023) as BabyLM has it: of several continuations the first is
  right."""

"""All finished runs below `$RELPOS_RUNS`, sorted by scale: what a claim can be tested with.

A *scale* is everything about a pre-training but position scheme, convolution and seed: size, steps, batch, text, recipe.
Rows of one scale may be compared. They are found by what they are and not by the table that made them: the row `composite` is every
run whose `position` and `conv` are those that `position=composite` gives. Runs of older code (another version of their stage) are
left out, and counted.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relpos.claims.network import nodes
from relpos.errors import RelposError
from relpos.runs.run import identity_of, read_record, runs_root
from relpos.tables.columns import GLUE
from relpos.tables.statistics import standard_error

OWN = ("seed", "position", "conv", "sources")
"""What distinguishes the runs of one scale."""
NEEDED = {"identity": str, "meaning": dict, "inputs": dict, "metrics": dict}
"""What the record of a finished run has to have here."""
MANY = 200
"""Records from which on a progress bar is shown."""
Plain = dict[str, Any]
"""What JSON holds: a record, or the meaning of a run."""
Seed = tuple[int, int]
"""Of the pre-training and of the fine-tuning."""


@dataclass
class Scores:
    """A column of a row: seeds → score × 100, seeds → file of answers where kept; metric, size and majority of the dev set."""

    values: dict[Seed, float] = field(default_factory=dict)
    metric: str = ""
    answers: dict[Seed, Path] = field(default_factory=dict)
    majority: float | None = None
    examples: int | None = None

    @property
    def is_above_constant(self) -> bool:
        """Whether the mean is above the constant answer's score by more than two standard errors of so many dev examples."""
        if self.majority is None or not self.examples:
            return True
        error = standard_error(self.majority, self.examples, self.metric)
        return sum(self.values.values()) / len(self.values) > self.majority + 2 * error


@dataclass
class Scale:
    """The runs of one scale: `folders` are pre-trainings, row → seed → folder; `scores` row → column → `Scores`."""

    meaning: Plain
    store: str
    folders: dict[str, dict[int, Path]] = field(default_factory=dict)
    scores: dict[str, dict[str, Scores]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """`4×256, 1,000 steps of 64, files (67a04f)`"""
        size, meaning = self.meaning["size"], self.meaning
        name, _, identity = self.store.rpartition("-")
        pairs = f", {meaning['pairs']:,} pairs" if meaning.get("pairs") else ""
        length = f" at {meaning['length']}" if meaning["length"] != 128 else ""
        steps = f"{meaning['steps']:,} steps of {meaning['batch']}{length}"
        return f"{size['layers']}×{size['hidden']}, {steps}, {name} ({identity[:6]}){pairs}"

    @property
    def magnitude(self) -> int:
        """Weights of the layers, about: what makes one size larger than another."""
        size = self.meaning["size"]
        return int(size["layers"] * size["hidden"] * (4 * size["hidden"] + 2 * size["ffn"]))

    def columns(self, *rows: str) -> list[str]:
        """GLUE's columns that all of these rows have."""
        return [column for column in GLUE if all(column in self.scores.get(row, {}) for row in rows)]

    def telling(self, *rows: str) -> list[str]:
        """Those of `columns` in which some of the rows is better than the constant answer: the others say nothing."""
        return [column for column in self.columns(*rows) if any(self.scores[row][column].is_above_constant for row in rows)]

    def has(self, *rows: str) -> bool:
        """Whether all of these rows have a score."""
        return bool(self.columns(*rows))


@dataclass
class Scales:
    """The scales there are, and how many runs of older code were left out."""

    found: list[Scale]
    older: int = 0

    def __iter__(self) -> Iterator[Scale]:
        return iter(self.found)

    def alike(self, *but: str) -> list[list[Scale]]:
        """Groups of scales that differ only in these keys of their meaning (`size`, `pairs`, …); each of two or more."""
        groups: dict[str, list[Scale]] = {}
        for scale in self.found:
            rest = {key: value for key, value in scale.meaning.items() if key not in but}
            groups.setdefault(json.dumps([rest, scale.store], sort_keys=True), []).append(scale)
        return [group for group in groups.values() if len(group) > 1]


def read(rows: Mapping[str, list[str]], root: Path | None = None) -> Scales:
    """Reads the records, with a progress bar where there are many; one that is damaged is named on stderr and left out.

    Args:
        rows: row → the words that make it.
        root: `$RELPOS_RUNS`.
    """
    root = root or runs_root()
    pretrainings = _finished(root, "pretrain")
    names = {_key(nodes(words)): name for name, words in rows.items()} if pretrainings else {}
    scales: dict[str, Scale] = {}
    places: dict[str, tuple[Scale, str, int]] = {}
    older = 0
    for folder, record in pretrainings.items():
        if not _is_current(record):
            older += 1
            continue
        meaning = record["meaning"]
        row = names.get(_key(meaning))
        if row is None:
            continue
        shared = {key: value for key, value in meaning.items() if key not in OWN}
        store = Path(record["inputs"]["store"]).name
        scale = scales.setdefault(json.dumps([shared, store], sort_keys=True), Scale(shared, store))
        scale.folders.setdefault(row, {})[meaning["seed"]] = folder
        places[folder.name] = (scale, row, meaning["seed"])
    _read_scores(root, places)
    return Scales(sorted(scales.values(), key=lambda scale: (scale.magnitude, scale.meaning["steps"])), older)


def _read_scores(root: Path, places: Mapping[str, tuple[Scale, str, int]]) -> None:
    """Of each column, the fine-tunings of one protocol (all but the seed): that which has most runs in the scale."""
    tunings = {folder.name: record for folder, record in _finished(root, "finetune").items() if _is_current(record)}
    found: list[tuple[Scale, str, Seed, str, str]] = []
    protocols: dict[tuple[int, str], Counter[str]] = {}
    for folder, record in tunings.items():
        chain = [record]
        while (start := Path(chain[-1]["inputs"].get("start", "")).name) in tunings and len(chain) < 5:
            chain.append(tunings[start])
        if start not in places:
            continue
        scale, row, pretrain_seed = places[start]
        protocol = json.dumps([{k: v for k, v in one["meaning"].items() if k != "seed"} for one in chain], sort_keys=True)
        found.append((scale, row, (pretrain_seed, record["meaning"]["seed"]), protocol, folder))
        for column in record["metrics"]["columns"]:
            protocols.setdefault((id(scale), column), Counter())[protocol] += 1
    chosen = {place: counts.most_common(1)[0][0] for place, counts in protocols.items()}
    for scale, row, seed, protocol, folder in found:
        record = tunings[folder]
        metrics = record["metrics"]
        for column, value in metrics["columns"].items():
            if chosen[id(scale), column] != protocol:
                continue
            scores = scale.scores.setdefault(row, {}).setdefault(column, Scores())
            scores.values[seed] = value
            if (path := root / "finetune" / folder / "dev" / f"{column}.tsv").is_file():
                scores.answers[seed] = path
            scores.metric = record["meaning"]["task"]["metric"]
            scores.majority = metrics.get("majority", {}).get(column)
            scores.examples = metrics.get("examples", {}).get(column)


def _key(node: Mapping[str, object]) -> str:
    return json.dumps([node["position"], node["conv"]], sort_keys=True)


def _finished(root: Path, stage: str) -> dict[Path, Plain]:
    """Folder → record of the finished runs of a stage."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    paths = sorted((root / stage).glob("*/record.json"))
    shown = console.is_terminal and len(paths) > MANY
    finished: dict[Path, Plain] = {}
    for path in track(paths, f"reading records of {stage}", console=console, transient=True, disable=not shown):
        try:
            record = read_record(path.parent)
        except RelposError as error:
            print(f"relpos: {error}", file=sys.stderr)
            continue
        if record.get("state") != "finished":
            continue
        if lacking := [key for key in NEEDED if not isinstance(record.get(key), NEEDED[key])]:
            print(f"relpos: damaged record {path}: no {lacking[0]}: delete the folder to start anew", file=sys.stderr)
            continue
        finished[path.parent] = record
    return finished


def _is_current(record: Plain) -> bool:
    """Whether the present code gives a run of this meaning and these inputs the identity that stands in the record."""
    inputs = {name: Path(folder).name.rpartition("-")[2] for name, folder in record["inputs"].items()}
    return identity_of(record["stage"], record["meaning"], inputs) == record["identity"]

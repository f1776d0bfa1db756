"""A scale with the scores of its rows, which claims are tested with.

A *scale* is everything about a pre-training but position scheme, convolution, seed, and `recipe.position_lr` and `recipe.conv_lr`,
which are tuned for each kind of scheme. Rows of one scale may be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relpos.ranges import shown
from relpos.results.statistics import above_constant
from relpos.runs.plan import other_layers
from relpos.runs.shelf import most_shared
from relpos.tables.intervals import halves
from relpos.tables.plateau import is_on_plateau
from relpos.train.optim import Recipe

LOSS, ORDER = "loss", "order"
"""Columns that any pre-training may have besides GLUE's, in nats, higher being better: minus the held-out loss, and the shuffle gap
over all words, as `relpos order` has kept it."""
CLEAR = 2.0
"""Within so many standard errors of the dev examples nothing tells a score from that of the constant answer."""
Plain = dict[str, Any]
"""Values as JSON has them: a record, or the meaning of a run."""
Seed = tuple[int, int]
"""(seed of the pre-training, seed of the fine-tuning); the second is 0 where there is no fine-tuning."""


@dataclass
class Scores:
    """A column of a row.

    Args:
        values: seeds → score × 100, or nats.
        metric: dotted name of the function that scores the dev set.
        answers: seeds → file of the answers on the dev set, where they were kept.
        majority: score of the constant answer.
        examples: size of the dev set.
    """

    values: dict[Seed, float] = field(default_factory=dict)
    metric: str = ""
    answers: dict[Seed, Path] = field(default_factory=dict)
    majority: float | None = None
    examples: int | None = None

    @property
    def above_constant(self) -> float:
        """Standard errors of the dev examples from the constant answer's score up to the mean; infinite where that is unknown."""
        mean = sum(self.values.values()) / len(self.values)
        return above_constant(mean, self.majority, self.examples, self.metric)

    def halves(self, seed: Seed) -> tuple[float, float]:
        """The score × 100 of a fine-tuning on the even and on the odd examples of the dev set."""
        return halves(self.answers[seed], self.metric)


@dataclass(frozen=True)
class Tuned:
    """A fine-tuning of a row.

    Args:
        seed: of its pre-training and its own; where fine-tunings are what is repeated, its own and 0.
        protocol: everything that fine-tunings of one column must have in common to be compared.
    """

    row: str
    seed: Seed
    folder: Path
    record: Plain
    protocol: str


@dataclass
class Scale:
    """The runs of one scale.

    Args:
        meaning: what its pre-trainings have in common.
        store: name of the folder of the text that they read.
        label: names the scale in one line.
        folders: row → seed → the pre-training's folder.
        scores: row → column → scores.
        seconds: that all of its runs took together, fine-tunings included.
        slowest: row → the smaller of the multipliers of the learning rates of its position scheme and its convolution.
        units: what is repeated to get several scores of a row.
        is_of_paper: whether its protocol is one that the claims are about; a verdict of another is never the headline.
        can_go_on: whether more pre-trainings at this scale could be made here.
    """

    meaning: Plain
    store: str
    label: str
    folders: dict[str, dict[int, Path]] = field(default_factory=dict)
    scores: dict[str, dict[str, Scores]] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: dict[str, float] = field(default_factory=dict)
    units: str = "pre-training seeds"
    is_of_paper: bool = True
    can_go_on: bool = True

    @property
    def magnitude(self) -> int:
        """About the number of weights of the layers, by which scales are sorted."""
        size = self.meaning["size"]
        # A gated feed-forward network has a third matrix.
        return int(size["layers"] * size["hidden"] * (4 * size["hidden"] + (3 if size.get("glu") else 2) * size["ffn"]))

    def travel(self, row: str) -> float | None:
        """About how far a parameter of a row's position scheme can move: the sum of its learning rates over the steps.

        Adam moves a parameter by about the learning rate in a step, at most. None if the recipe is not known.
        """
        recipe = self.meaning.get("recipe")
        if not recipe or "lr" not in recipe:
            return None
        return Recipe.of(recipe).travel(self.meaning["steps"]) * self.slowest.get(row, 1.0)

    def add(self, tunings: Sequence[Tuned]) -> None:
        """Reads the scores of fine-tunings; into each column those of the protocol that most of them share."""
        # Never two protocols in one column: a longer fine-tuning would pass for a better network.
        used = most_shared(((name, each.protocol, "") for each in tunings for name in each.record["metrics"]["columns"]), [""])
        for each in tunings:
            metrics = each.record["metrics"]
            self.seconds += each.record.get("seconds", 0.0)
            for name in (name for name in metrics["columns"] if used[name] == each.protocol):
                scores = self.scores.setdefault(each.row, {}).setdefault(name, Scores())
                scores.values[each.seed] = metrics["columns"][name]
                # Runs of older code kept no answers.
                if (path := each.folder / "dev" / f"{name}.tsv").is_file():
                    scores.answers[each.seed] = path
                scores.metric = each.record["meaning"]["task"]["metric"]
                scores.majority = metrics.get("majority", {}).get(name)
                scores.examples = metrics.get("examples", {}).get(name)

    def shared(self, columns: Sequence[str], *rows: str) -> list[str]:
        """Those of `columns` that all of these rows have."""
        return [column for column in columns if all(column in self.scores.get(row, {}) for row in rows)]

    def telling(self, columns: Sequence[str], *rows: str) -> list[str]:
        """Those of `columns` in which at least one of the rows is better than the constant answer; the others tell nothing."""
        shared = self.shared(columns, *rows)
        return [column for column in shared if any(self.scores[row][column].above_constant > CLEAR for row in rows)]

    def losses(self, row: str) -> dict[int, float]:
        """Pre-training seed → held-out loss."""
        return {seed: -value for (seed, _), value in self.scores[row][LOSS].values.items()}

    def is_on_plateau(self, row: str) -> bool | None:
        """Whether a row has not left the bag-of-words plateau; None where its shuffle gap was not measured."""
        losses = {name: self.losses(name) for name, scores in self.scores.items() if LOSS in scores}
        gaps = {name: scores[ORDER].values.values() for name, scores in self.scores.items() if ORDER in scores}
        return is_on_plateau(losses, gaps, row)


def of_pretrainings(meaning: Plain, store: str) -> Scale:
    """The scale of pre-trainings with this in common, still without runs: `4×256, 1,000 steps of 64, files (67a04f)`."""
    size, recipe, first = meaning["size"], meaning.get("recipe", {}), meaning.get("first")
    name, _, identity = store.rpartition("-")
    layers = other_layers(size)
    how = "".join(f" {key}={shown(value)}" for key, value in layers.items()) + " muon" * ("optimizer" in recipe)
    how += f" masking={shown(recipe['masking'])}" if "masking" in recipe else ""
    how += f" {recipe['schedule']}" if "schedule" in recipe else ""
    how += f" {meaning['precision']}" if meaning.get("precision", "fp32") != "fp32" else ""
    steps = f"{meaning['steps']:,} steps of {meaning['batch']}"
    steps += f" at {meaning['length']}" if meaning["length"] != 128 else ""
    steps += f", {first['share']:.0%} of them of {first['batch']} at {first['length']}" if first else ""
    pairs = f", {meaning['pairs']:,} pairs" if meaning.get("pairs") else ""
    # The layers, the optimiser and the masks must be the papers', and the text in its order; size, text and length are free.
    is_of_paper = not layers and not {"optimizer", "masking"} & recipe.keys() and "shuffle" not in meaning
    label = f"{size['layers']}×{size['hidden']}{how}, {steps}, {name} ({identity[:6]}){pairs}"
    return Scale(meaning, store, label, is_of_paper=is_of_paper)


@dataclass
class Scales:
    """All scales; iterating gives those of pre-trainings.

    Args:
        known: scales of pre-trainings, the smallest first.
        older: how many runs of older code were left out.
        pilots: how many runs of tables in which rates were chosen were left out.
        tuned: scales of fine-tunings of networks named by the user, for claims about such.
        published: a scale for each checkpoint named by the user, for claims that a network's weights alone decide.
    """

    known: list[Scale]
    older: int = 0
    pilots: int = 0
    tuned: list[Scale] = field(default_factory=list)
    published: list[Scale] = field(default_factory=list)

    def __iter__(self) -> Iterator[Scale]:
        return iter(self.known)

    def alike(self, *but: str) -> list[list[Scale]]:
        """Groups of two or more scales that differ only in these keys of their meaning (`size`, `pairs`, …)."""
        # By what is equal and not by what differs: a new key of a meaning then separates scales until a rule names it.
        groups: dict[str, list[Scale]] = {}
        for scale in self.known:
            # The text is no part of the meaning, and must be the same as well.
            rest = {key: value for key, value in scale.meaning.items() if key not in but}
            groups.setdefault(json.dumps([rest, scale.store], sort_keys=True), []).append(scale)
        return [group for group in groups.values() if len(group) > 1]

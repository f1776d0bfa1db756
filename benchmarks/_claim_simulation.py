"""Simulates what the rules of the claims would decide if the papers' own figures were true, before anything is trained.

A *world* has the true score of each row in each column. Pre-trainings are drawn from it, each the mean of `TUNINGS` fine-tunings,
and the tests of the claims are applied to these as they are to real runs. A rule is useful if it holds in most draws from a world
in which the papers' figures are true, and in few from a world in which all rows are alike.

The standard deviation of a fine-tuning is the printed standard error × √10; Wennberg & Henter print none, so theirs is the median
of those of Chang et al. in the same column. No paper prints the spread between pre-trainings: it is taken to be as large as that
between fine-tunings, which gives a GLUE mean a standard deviation of about 0.4.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from relpos.claims.claim import Claim
from relpos.claims.columns import error_reduction
from relpos.claims.trends import falls, shrinks
from relpos.claims.verdict import FAILS, HOLDS, NOT_RUN, headline
from relpos.config.conf import shipped
from relpos.results.scale import Scale, Scales, made
from relpos.results.statistics import standard_error
from relpos.results.values import GLUE, Value

SEEDS = (3, 5, 10)
TUNINGS = 2
"""Fine-tunings of a pre-training."""
LEAST_SEM = 0.05
"""A standard error that is printed as 0.0 counts as this."""
SIZES = {"small": {"layers": 12, "hidden": 256, "ffn": 1024}, "base": {"layers": 12, "hidden": 768, "ffn": 3072}}
EXAMPLES = {
    "cola": 1043,
    "mnli_m": 9815,
    "mnli_mm": 9832,
    "mrpc": 408,
    "qnli": 5463,
    "qqp": 40430,
    "rte": 277,
    "sst2": 872,
    "stsb": 1500,
}
"""Dev examples of each column."""
ALBERT = {"baseline": "absolute", "s1": "absolute_tisa_s1", "s3": "absolute_tisa_s3", "s5": "absolute_tisa"}
BAG_OF_WORDS = {"baseline": "none", "s1": "tisa_s1", "s3": "tisa_s3", "s5": "tisa"}
Means = dict[str, dict[str, float]]
"""Row → column → score."""


@dataclass(frozen=True)
class World:
    """The true scores.

    Args:
        name: `dev`, `test` or `alike`.
        means: size → row → column → score × 100.
        deviations: size → row → column → standard deviation of a fine-tuning.
    """

    name: str
    means: Mapping[str, Means]
    deviations: Mapping[str, Means]


@dataclass(frozen=True)
class Power:
    """How often a claim's rule decides one way or the other, in one world with a certain number of pre-training seeds.

    Args:
        holds: share of the draws in which the claim holds.
        fails: share of the draws in which it fails.
        draws: how many there were.
    """

    holds: float
    fails: float
    draws: int


def worlds(paper: str) -> list[World]:
    """Three worlds: the paper's dev figures; its test figures, if there are some; and one in which all rows of a size are alike.

    If test figures are printed for the GLUE mean alone, the dev figures of all columns are shifted by the same amount to fit it.
    """
    means, deviations = _chang() if paper == "chang2021" else _wennberg()
    made = [World("dev", means, deviations)]
    if paper == "chang2021":
        made.append(World("test", _test_means(means), deviations))
    return [*made, World("alike", {size: _alike(rows) for size, rows in means.items()}, deviations)]


def power(claims: Sequence[Claim], world: World, seeds: int, draws: int, first: int = 0) -> dict[str, Power]:
    """Claim → how often it holds and fails, for the claims whose rows this world has.

    Args:
        claims: of one paper's file; variants and claims that are not about contrasts of rows are left out.
        world: what is true.
        seeds: pre-trainings of each row.
        draws: how often the pre-trainings are drawn.
        first: number of the first draw, from which its random numbers follow.
    """
    tests = {claim.id: claim.tester for claim in claims if claim.measure is None and claim.tester.contrasts}
    counts: dict[str, list[str]] = {}
    for draw in range(first, first + draws):
        chance = np.random.default_rng(draw)
        scales = drawn(world, seeds, chance)
        for name, test in tests.items():
            compares_sizes = test.rule in (shrinks, falls) or test.at == "largest"
            runs = scales if compares_sizes else Scales(scales.known[:1])  # other claims are about the papers' smaller models
            if test.rule == error_reduction:
                _answer(runs, chance)
            counts.setdefault(name, []).append(headline(test.verdicts(runs)).verdict)
    return {
        name: Power(verdicts.count(HOLDS) / draws, verdicts.count(FAILS) / draws, draws)
        for name, verdicts in counts.items()
        if set(verdicts) != {NOT_RUN}
    }


def drawn(world: World, seeds: int, chance: np.random.Generator) -> Scales:
    """Simulated runs: a scale for each size, with so many pre-trainings of each row."""
    return Scales([_scale(world, size, seeds, chance) for size in world.means])


def pretraining(deviation: float, tunings: int = TUNINGS) -> float:
    """Standard deviation of a pre-training's mean over fine-tunings. Theirs is `deviation`, and so is that between pre-trainings.

    >>> pretraining(2.0, tunings=1)
    2.8284271247461903
    """
    return deviation * (1 + 1 / tunings) ** 0.5


def _scale(world: World, size: str, seeds: int, chance: np.random.Generator) -> Scale:
    meaning = {"size": SIZES[size], "steps": 125_000, "batch": 256, "length": 128, "pairs": None}
    scale = made(meaning, "simulated-0")
    for row, columns in world.means[size].items():
        scale.values[row] = {}
        for column, mean in columns.items():
            values = chance.normal(mean, pretraining(world.deviations[size][row][column]), seeds)
            scale.values[row][column] = [
                Value(Path(), "finetune", column, float(value), pretrain_seed=seed) for seed, value in enumerate(values)
            ]
    return scale


def _answer(scales: Scales, chance: np.random.Generator) -> None:
    """Gives all fine-tunings simulated halves of the dev sets."""
    for columns in (columns for scale in scales for columns in scale.values.values()):
        for column, values in columns.items():
            columns[column] = [_OnHalves(**vars(each) | {"answers": Path()}, chance=chance) for each in values]


@dataclass(frozen=True)
class _OnHalves(Value):
    """A score of which one half of the dev set scores as much above the whole set as the other below it."""

    chance: np.random.Generator = field(default_factory=np.random.default_rng)

    def halves(self) -> tuple[float, float]:
        metric = {"cola": "matthews", "stsb": "pearson"}.get(self.column, "accuracy")
        more = self.chance.normal(0.0, standard_error(self.value, EXAMPLES[self.column], metric))
        return self.value + more, self.value - more


def _chang() -> tuple[dict[str, Means], dict[str, Means]]:
    means: dict[str, Means] = {}
    deviations: dict[str, Means] = {}
    for row in _csv("chang2021_table6"):
        size, _, name = row["row"].partition("_")
        means.setdefault(size, {})[name] = {column: float(row[f"{column}_mean"]) for column in GLUE}
        deviations.setdefault(size, {})[name] = {column: 10**0.5 * max(LEAST_SEM, float(row[f"{column}_sem"])) for column in GLUE}
    return means, deviations


def _test_means(dev: Mapping[str, Means]) -> dict[str, Means]:
    means: dict[str, Means] = {size: {} for size in dev}
    for table in ("table3", "table1", "table2", "table7"):  # in this order rows with printed columns replace those without
        for row in _csv(f"chang2021_{table}"):
            size, _, name = row["row"].partition("_") if row["row"].startswith(("small_", "base_")) else ("small", "", row["row"])
            columns = dev[size][name]
            shift = float(row["glue"]) - sum(columns.values()) / len(columns)
            means[size][name] = {
                column: float(row[column]) if row.get(column) else dev_mean + shift for column, dev_mean in columns.items()
            }
    return means


def _wennberg() -> tuple[dict[str, Means], dict[str, Means]]:
    means: Means = {}
    for table, names in (("wennberg2021_table3a", ALBERT), ("wennberg2021_table3b", BAG_OF_WORDS)):
        for row in (row for row in _csv(table) if row["row"] in names):
            means[names[row["row"]]] = {column: float(row[column]) for column in GLUE if column in row}
    _, by_size = _chang()
    every = [columns for rows in by_size.values() for columns in rows.values()]
    typical = {column: median(columns[column] for columns in every) for column in GLUE}
    return {"base": means}, {"base": {row: {column: typical[column] for column in columns} for row, columns in means.items()}}


def _alike(rows: Means) -> Means:
    """The same rows, each with the mean of all rows in every column."""
    having = {column: [columns[column] for columns in rows.values() if column in columns] for column in GLUE}
    return {row: {column: sum(having[column]) / len(having[column]) for column in columns} for row, columns in rows.items()}


def _csv(name: str) -> Iterator[dict[str, str]]:
    with (shipped("experiments") / "printed" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)

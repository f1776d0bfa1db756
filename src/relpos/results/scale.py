"""Which runs may be compared: those of one scale, and of these the values that stand beside each
other.

A *scale* is everything about a pre-training but position scheme, convolution, seed, and
`recipe.position_lr` and `recipe.conv_lr`, which are tuned for each kind of scheme. A *row* is a
scheme, recognised by the configuration of its runs and not by the table that made them. Within a
row and a column:

- Of several rates, those with most seeds count (the chosen ones are trained with more seeds than
  those they were chosen from); of equally many, those with a `conv_lr`, then the lowest: never
  those with the best scores, which would favour rows that were tuned longer.
- Values that were measured in several ways are never mixed; the way of most values of the scale
  counts.
- Runs that today's code would not make are left out. So are pilots, with which rates were chosen:
  on the seed that chose it, a rate is the best in part by chance.
- A score within two standard errors of the constant answer's shows nothing, see `CLEAR`.
- A column in which no row is surely ahead of a network that was not pre-trained shows nothing about
  pre-training, see `relpos.results.gain`.
- Two rows on the bag-of-words plateau differ by how they learn the words, which shows nothing about
  positions, see `relpos.results.plateau`.

Fine-tunings of one network that the user names are a scale as well, see `relpos.results.tuned`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from math import copysign, inf
from pathlib import Path

from relpos.config.compose import composed, resolved
from relpos.config.conf import key_of
from relpos.model.architecture import class_of
from relpos.ranges import shown
from relpos.readers import Plain
from relpos.results import plateau
from relpos.results.statistics import standard_error
from relpos.results.values import (
    GAP,
    GLUE,
    LOSS,
    Rates,
    Seed,
    Value,
    by,
    by_pretraining,
    precedence,
    select,
    shared_ways,
    slowest,
)
from relpos.runs.shelf import END
from relpos.stages.identity import other_layers
from relpos.train.optim import Recipe

MEAN = "glue"
"""Stands for the mean of GLUE's columns."""
NAMED = {LOSS: ("loss", -1.0), GAP: ("order", 1.0)}
"""Columns of pre-trainings → their name in a scale, and the sign with which higher is better."""
CLEAR = 2.0
"""A score within so many standard errors (of the dev examples) of the constant answer's cannot be
told from it."""
SHORT_TRAVEL = 5.0
"""A position parameter that cannot move as far may not reach the value that it would learn (kernels
of `fixed` reach about 4 when they can). A verdict about such rows says so."""
SCHEME_KEYS = ("position", "conv", "k", "outside", "kernels")
"""Keys of a configuration that define the scheme."""
IDLE: Plain = {"recipe": {}, "precision": "fp32", "first": None, "pairs": None}
"""What a meaning without these keys stands for."""


@dataclass
class Scale:
    """The runs of one scale.

    Args:
        meaning: what its pre-trainings have in common.
        label: names the scale in one line.
        folders: row → seed → the pre-training's folder.
        values: row → column → values at the end of the training, higher is better: scores × 100 or,
            for `loss` and `order`, nats.
        travels: row → about how far a parameter of its scheme can move, see `travel`.
        untrained: column → scores of fine-tunings that start from a network of no pre-training.
        units: what is repeated to get several scores of a row.
        is_of_paper: whether the claims are about its protocol; the verdict of another scale is
            never the headline.
    """

    meaning: Plain = field(default_factory=dict)
    label: str = ""
    folders: dict[str, dict[int, Path]] = field(default_factory=dict)
    values: dict[str, dict[str, list[Value]]] = field(default_factory=dict)
    travels: dict[str, float | None] = field(default_factory=dict)
    untrained: dict[str, list[Value]] = field(default_factory=dict)
    units: str = "pre-training seeds"
    is_of_paper: bool = True

    @property
    def magnitude(self) -> int:
        """About the number of weights of the layers: the key by which scales are sorted."""
        size = self.meaning["size"]
        # A gated feed-forward network has a third matrix.
        matrices = 3 if size.get("glu") else 2
        return int(size["layers"] * size["hidden"] * (4 * size["hidden"] + matrices * size["ffn"]))

    def add(self, rows: Mapping[str, Sequence[Value]]) -> None:
        """Adds values of rows: of each column those that were measured in the way that most of them
        share."""
        at_end = {row: select(values, percent=END) for row, values in rows.items()}
        used = shared_ways(chain(*at_end.values()))
        for row, values in at_end.items():
            columns = self.values.setdefault(row, {})
            for value in values:
                name, sign = NAMED.get(value.column, (value.column, 1.0))
                if value.way == used[value.column] and (value.is_tuning or value.column in NAMED):
                    signed = replace(value, column=name, value=sign * value.value)
                    columns.setdefault(name, []).append(signed)

    def shared(self, columns: Sequence[str], *rows: str) -> list[str]:
        """The columns, of these, that all of the rows have."""
        return [
            column for column in columns if all(column in self.values.get(row, {}) for row in rows)
        ]

    def telling(self, columns: Sequence[str], *rows: str) -> list[str]:
        """The columns, of these, in which at least one row is better than the constant answer; the
        rest show nothing."""
        return [
            column
            for column in self.shared(columns, *rows)
            if any(errors_above(self.values[row][column]) > CLEAR for row in rows)
        ]

    def singles(self, row: str, columns: Sequence[str]) -> dict[Seed, float]:
        """Seeds → mean of the columns, for the fine-tunings that have all of them."""
        return mean_of([scores_by_seeds(self.values[row][column]) for column in columns])

    def by_seed(self, columns: Sequence[str]) -> dict[str, dict[int, float]]:
        """Row → pre-training seed → mean over its fine-tunings, for all rows that have these
        columns."""
        return {
            row: by_pretraining(self.singles(row, columns))
            for row, by_column in self.values.items()
            if by_column.keys() >= {*columns}
        }

    def apart(self, columns: Sequence[str]) -> list[str]:
        """Rows whose spread in these columns says nothing about that of others: those that have
        some of these columns, and are at the constant answer in each of them; and, in what a
        pre-training is measured in, those that do not know the order yet."""
        rows = []
        for row, by_column in self.values.items():
            errors = [errors_above(by_column[column]) for column in columns if column in by_column]
            if errors and all(abs(error) <= CLEAR for error in errors):
                rows.append(row)
        if set(columns) <= {name for name, _ in NAMED.values()}:
            rows += plateau.on_their_way(self.losses())
        return rows

    def losses(self) -> dict[str, dict[int, float]]:
        """Row → pre-training seed → held-out loss."""
        of_rows = self.by_seed(["loss"]).items()
        return {row: {seed: -loss for seed, loss in units.items()} for row, units in of_rows}

    def is_on_plateau(self, row: str) -> bool | None:
        """Whether a row has not left the bag-of-words plateau; None where its shuffle gap was not
        measured."""
        return plateau.is_on_plateau(self.losses(), self.by_seed(["order"]), row)


@dataclass
class Scales:
    """All scales; iterating gives those of pre-trainings.

    Args:
        pretrained: scales of pre-trainings, the smallest first; of equally large ones, those with
            fewest steps and with a first stage.
        older: number of runs left out because today's code would not make them.
        pilots: number of runs left out because rates were chosen with them.
        tuned: scales of fine-tunings of networks named by the user, for claims about such.
    """

    pretrained: list[Scale]
    older: int = 0
    pilots: int = 0
    tuned: list[Scale] = field(default_factory=list)

    def __iter__(self) -> Iterator[Scale]:
        return iter(self.pretrained)


def scales(
    values: Sequence[Value],
    rows: Mapping[str, Iterable[str]],
    pilot_seeds: Collection[int] = (),
) -> Scales:
    """The scales of pre-trainings, with what their fine-tunings scored.

    Args:
        values: of all runs.
        rows: row → the overrides that make it.
        pilot_seeds: seeds of pilots. They are left out at every scale, because a pilot is often
            shorter or smaller than the training for which it chose a rate.
    """
    # One value a run, of those that were pre-trained from scratch.
    trained = [
        value
        for value, *_ in by(select(values, stage="pretrain"), "run").values()
        if "start" not in json.loads(value.scale)[0]
    ]
    current = select(trained, is_current=True)
    used = [value for value in current if value.pretrain_seed not in pilot_seeds]
    # Without pre-trainings there is nothing to recognise, and composing the schemes of all rows
    # takes time.
    names = {scheme(overrides): name for name, overrides in rows.items()} if trained else {}
    by_origin = by(select(values, is_current=True), "origin")
    by_key: dict[str, Scale] = {}
    for key, of_scale in by((value for value in used if value.scheme in names), "scale").items():
        scale = pretraining_scale(*json.loads(key))
        values_of_rows = {}
        for of_scheme, runs_of_row in by(of_scale, "scheme").items():
            row = names[of_scheme]
            rates, runs = max(
                by(runs_of_row, "rates").items(),
                key=lambda item: (len(item[1]), precedence(item[0])),
            )
            scale.folders[row] = {run.seeds[0]: run.run for run in runs}
            conv = json.loads(of_scheme)["conv"]
            scale.travels[row] = travel(scale.meaning, rates, by_origin[runs[0].origin], conv)
            values_of_rows[row] = [value for run in runs for value in by_origin[run.origin]]
        # All rows of a scale at once, because together they decide which way of measuring counts.
        scale.add(values_of_rows)
        by_key[key] = scale
    for key, scale in by_key.items():
        meaning, store = json.loads(key)
        start = by_key.get(json.dumps([meaning | {"steps": 0}, store], sort_keys=True), scale)
        if start is not scale:
            # Scores that were fine-tuned in another way are not mixed here, either.
            of_rows = chain(*(columns.values() for columns in scale.values.values()))
            ways = {value.way for value in chain(*of_rows)}
            [columns, *_] = start.values.values()
            scale.untrained = {
                column: scores
                for column, scores in columns.items()
                if scores[0].is_tuning and scores[0].way in ways
            }
    _tell_apart(by_key.values())
    result = sorted(
        by_key.values(),
        key=lambda scale: (scale.magnitude, scale.meaning["steps"], "first" not in scale.meaning),
    )
    return Scales(result, len(trained) - len(current), len(current) - len(used))


def _tell_apart(scales: Iterable[Scale]) -> None:
    """Adds the settings in which they differ, as in ` lr=0.003`, to the labels of scales with the
    same label.

    Labels must differ, because chance is corrected for by label.
    """
    for group in by(scales, "label").values():
        settings = []
        for scale in group:
            dials = IDLE | scale.meaning
            dials |= dials.pop("size") | dials.pop("recipe")
            settings.append(dials)
        for scale, dials in zip(group, settings, strict=True):
            for key, value in dials.items():
                if any(others.get(key) != value for others in settings):
                    scale.label += f" {key}={shown(value)}"


def pretraining_scale(meaning: Plain, store: str) -> Scale:
    """The scale of pre-trainings with this meaning and text in common, still without runs.

    Its label is as `4×256, 1,000 steps of 64, files (67a04f)`. Meaning and store stand in
    `Value.scale`.
    """
    settings = IDLE | meaning
    size = settings["size"]
    recipe = settings["recipe"]
    first = settings["first"]
    layers = other_layers(size)
    label = f"{size['layers']}×{size['hidden']}"
    for key, value in layers.items():
        label += f" {key}={shown(value)}"
    if "optimizer" in recipe:
        label += " muon"
    if "masking" in recipe:
        label += f" masking={shown(recipe['masking'])}"
    if "schedule" in recipe:
        label += f" {recipe['schedule']}"
    if settings["precision"] != "fp32":
        label += f" {settings['precision']}"
    label += f", {settings['steps']:,} steps of {settings['batch']}"
    if settings["length"] != 128:
        label += f" at {settings['length']}"
    if first:
        label += f", {first['share']:.0%} of them of {first['batch']} at {first['length']}"
    name, _, identity = store.rpartition("-")
    label += f", {name} ({identity[:6]})"
    if settings["pairs"]:
        label += f", {settings['pairs']:,} pairs"
    # The layers, the optimiser and the masks must be the papers', and the text in its order; size,
    # text and length are free.
    others = layers.keys() | {"optimizer", "masking"} & recipe.keys() | {"shuffle"} & meaning.keys()
    return Scale(meaning, label, is_of_paper=not others)


def scores_by_seeds(values: Iterable[Value]) -> dict[Seed, float]:
    """Seeds → score; of two runs that differ in nothing else the last counts."""
    return {value.seeds: value.value for value in values}


def mean_of(columns: Sequence[Mapping[Seed, float]]) -> dict[Seed, float]:
    """Seeds → mean of the columns, for the seeds that all columns have.

    A mean over fewer columns would be high or low by which of them are missing.

    >>> mean_of([{(0, 0): 70.0, (0, 1): 71.0}, {(0, 0): 50.0}])
    {(0, 0): 60.0}
    """
    common = [seed for seed in columns[0] if all(seed in scores for scores in columns)]
    return {seed: sum(scores[seed] for scores in columns) / len(columns) for seed in common}


def errors_above(values: Sequence[Value]) -> float:
    """How far the mean of a row's scores lies above the constant answer's, in standard errors of
    the dev examples.

    Infinite where the constant answer or the number of examples is unknown.

    >>> errors_above([Value(Path(), "finetune", "rte", 70.0, metric="accuracy", majority=50.0, examples=100)])
    4.0
    """
    scores, last = scores_by_seeds(values), values[-1]
    if last.majority is None or not last.examples:
        return inf
    above = sum(scores.values()) / len(scores) - last.majority
    if error := standard_error(last.majority, last.examples, last.metric):
        return above / error
    return copysign(inf, above) if above else 0.0


def columns_named(column: str, only: Collection[str] | None = None) -> list[str]:
    """The columns that a name stands for: `glue` for the nine, or for those of the nine that are in
    `only`."""
    return [name for name in GLUE if only is None or name in only] if column == MEAN else [column]


@cache
def _scheme(overrides: tuple[str, ...]) -> str:
    config = resolved(composed("pretrain", overrides))
    return json.dumps({key: config[key] for key in ("position", "conv")}, sort_keys=True)


def scheme(overrides: Iterable[str]) -> str:
    """Position scheme and convolution that a pre-training's overrides give, in the form of
    `Value.scheme`.

    >>> scheme(["position=tisa", "kernels=5", "size=small"]) == scheme(["position=tisa", "conv=none"])
    True
    >>> scheme(["position=tisa", "kernels=3"]) == scheme(["position=tisa"])
    False
    """
    return _scheme(
        tuple(override for override in overrides if key_of(override).split(".")[0] in SCHEME_KEYS)
    )


def travel(
    settings: Plain,
    rates: Rates,
    values: Iterable[Value],
    conv: Plain | None,
) -> float | None:
    """About how far a parameter of a scheme can move: the sum of its learning rates over the steps.

    Adam moves a parameter in a step by at most about the learning rate. None if there is no recipe,
    or if neither the position scheme nor the convolution has parameters.

    Args:
        settings: recipe and steps of a pre-training.
        rates: its factors for scheme and convolution.
        values: its numbers; without a count of parameters its scheme is taken to have some.
        conv: its convolution.
    """
    position_lr, conv_lr = rates
    counts = [value.value for value in select(values, column="position_parameters")]
    factors = []
    # The rate of a part without parameters does not count.
    if max(counts, default=1) > 0:
        factors.append(slowest(position_lr))
    if class_of(conv) != plateau.NONE:
        factors.append(slowest(position_lr) if conv_lr is None else conv_lr)
    recipe = settings.get("recipe") or {}
    if not factors or "lr" not in recipe:
        return None
    return Recipe.of(recipe).travel(settings["steps"]) * min(factors)


def short_travel(travels: Iterable[float | None]) -> str:
    """A warning if parameters of a row could not move far in the training, which alone may make
    rows differ; else empty."""
    least = min((travel for travel in travels if travel is not None), default=SHORT_TRAVEL)
    if least >= SHORT_TRAVEL:
        return ""
    return (
        f"position parameters could move by at most about {least:.2g} (the sum of their learning "
        f"rates); "
        f"below {SHORT_TRAVEL:g} a scheme may lose by that alone: more steps, or recipe.position_lr"
    )

"""What may be compared, said once: which runs are of one scale, and which of their values stand beside each other.

A *scale* is everything about a pre-training but position scheme, convolution, seed, and `recipe.position_lr` and `recipe.conv_lr`,
which are tuned for each kind of scheme. A *row* is a scheme, told by the configuration of its runs and not by the table that made
them. Within a row and a column:

- Of several rates, those with most seeds count (the chosen ones are trained with more seeds than those they were chosen from); of
  equally many, those with a rate of the convolution's own, then the lowest: never those with the best scores, which would favour
  rows that were tuned longer.
- Values that were measured in several ways are never mixed: those count that were measured in the way that most of the scale's are.
- Runs of older code are left out, and so are pilots, with which rates were chosen: a rate is the best on the seed that chose it in
  part by chance.
- A score within two standard errors of the constant answer's tells nothing, see `at_constant`.
- Two rows on the bag-of-words plateau differ by how they learn the words, which says nothing of positions, see
  `relpos.results.plateau`.

Fine-tunings of one network that the user names, from a folder or the hub, are a scale as well, with the rows of Tables 3a and 3b
of Wennberg & Henter (2021). These differ only in the fine-tuning. So fine-tunings are what is repeated: their seeds take the place
that seeds of pre-trainings have at other scales, and a finding concerns this one network.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import copysign, inf
from pathlib import Path

from relpos.config.compose import composed, resolved
from relpos.config.conf import key_of
from relpos.pretrained.files import name_of
from relpos.ranges import shown
from relpos.results import plateau
from relpos.results.statistics import standard_error
from relpos.results.values import GAP, GLUE, LOSS, Plain, Rates, Value, by, per_group, precedence, shared_ways, slowest
from relpos.runs.plan import other_layers
from relpos.runs.shelf import END
from relpos.train.network import class_of
from relpos.train.optim import Recipe

MEAN = "glue"
"""Stands for the mean of GLUE's columns."""
NAMED = {LOSS: ("loss", -1.0), GAP: ("order", 1.0)}
"""Columns of pre-trainings → their name in a scale, and the sign with which higher is better."""
CLEAR = 2.0
"""Within so many standard errors of the dev examples nothing tells a score from that of the constant answer."""
SHORT_TRAVEL = 5.0
"""A position parameter that cannot move as far as this may not reach the value that it would learn: kernels of `fixed` reach about
4 when they can. A verdict about such rows says so."""
SCHEME_KEYS = ("position", "conv", "k", "outside", "kernels")
"""Keys of a configuration that make the scheme."""
ROWS = {"keep": ("absolute", "absolute_tisa"), "remove": ("none", "tisa")}
"""`change.positions` → the row without TISA (S = 0), and with it."""
NAMED_BY_S = {1: "_s1", 3: "_s3", 5: ""}
"""S → the ending of that row's name."""
Start = tuple[str, bool]
"""How TISA starts (`change.start`), and whether one module serves all layers (`change.reused`)."""
Seed = tuple[int, int]
"""(seed of the pre-training, seed of the fine-tuning); the second is 0 where there is no fine-tuning."""


@dataclass
class Scale:
    """The runs of one scale.

    Args:
        meaning: what its pre-trainings have in common.
        store: name of the folder of the text that they read.
        label: names the scale in one line.
        folders: row → seed → the pre-training's folder.
        values: row → column → values at the end of the training, of which more is better: scores × 100 or, for `loss` and `order`,
            nats.
        travels: row → about how far a parameter of its scheme can move, see `travel`.
        units: what is repeated to get several scores of a row.
        is_of_paper: whether its protocol is one that the claims are about; a verdict of another is never the headline.
    """

    meaning: Plain
    store: str
    label: str
    folders: dict[str, dict[int, Path]] = field(default_factory=dict)
    values: dict[str, dict[str, list[Value]]] = field(default_factory=dict)
    travels: dict[str, float | None] = field(default_factory=dict)
    units: str = "pre-training seeds"
    is_of_paper: bool = True

    @property
    def magnitude(self) -> int:
        """About the number of weights of the layers, by which scales are sorted."""
        size = self.meaning["size"]
        # A gated feed-forward network has a third matrix.
        return int(size["layers"] * size["hidden"] * (4 * size["hidden"] + (3 if size.get("glu") else 2) * size["ffn"]))

    def add(self, rows: Mapping[str, Sequence[Value]]) -> None:
        """Takes up the values of rows, of each column those that were measured in the way that most share."""
        at_end = {row: [each for each in values if each.percent == END] for row, values in rows.items()}
        used = shared_ways(each for values in at_end.values() for each in values)
        for row, values in at_end.items():
            columns = self.values.setdefault(row, {})
            for each in values:
                if each.way == used[each.column] and (each.stage == "finetune" or each.column in NAMED):
                    name, sign = NAMED.get(each.column, (each.column, 1.0))
                    columns.setdefault(name, []).append(replace(each, column=name, value=sign * each.value))

    def shared(self, columns: Sequence[str], *rows: str) -> list[str]:
        """Those of `columns` that all of these rows have."""
        return [column for column in columns if all(column in self.values.get(row, {}) for row in rows)]

    def telling(self, columns: Sequence[str], *rows: str) -> list[str]:
        """Those of `columns` in which at least one of the rows is better than the constant answer; the others tell nothing."""
        shared = self.shared(columns, *rows)
        return [column for column in shared if any(errors_above(self.values[row][column]) > CLEAR for row in rows)]

    def singles(self, row: str, columns: Sequence[str]) -> dict[Seed, float]:
        """Seeds → mean of the columns, for the fine-tunings that have all of them."""
        return mean_of([{seeds(each): each.value for each in self.values[row][column]} for column in columns])

    def by_seed(self, columns: Sequence[str]) -> dict[str, dict[int, float]]:
        """Row → pre-training seed → mean over its fine-tunings, for all rows that have these columns."""
        rows = [row for row in self.values if self.shared(columns, row) == list(columns)]
        return {row: by_pretraining(self.singles(row, columns)) for row in rows}

    def at_constant(self, columns: Sequence[str]) -> list[str]:
        """Rows that are at the constant answer in all of these columns that they have."""
        having = {row: [found[column] for column in columns if column in found] for row, found in self.values.items()}
        return [row for row, found in having.items() if found and all(abs(errors_above(values)) <= CLEAR for values in found)]

    def losses(self) -> dict[str, dict[int, float]]:
        """Row → pre-training seed → held-out loss."""
        return {row: {seed: -value for seed, value in units.items()} for row, units in self.by_seed(["loss"]).items()}

    def is_on_plateau(self, row: str) -> bool | None:
        """Whether a row has not left the bag-of-words plateau; None where its shuffle gap was not measured."""
        return plateau.is_on_plateau(self.losses(), self.by_seed(["order"]), row)


@dataclass
class Scales:
    """All scales; iterating gives those of pre-trainings.

    Args:
        known: scales of pre-trainings, the smallest first; of equally large ones, those with fewest steps and with a first stage.
        older: how many runs of older code were left out.
        pilots: how many runs of tables in which rates were chosen were left out.
        tuned: scales of fine-tunings of networks named by the user, for claims about such.
    """

    known: list[Scale]
    older: int = 0
    pilots: int = 0
    tuned: list[Scale] = field(default_factory=list)

    def __iter__(self) -> Iterator[Scale]:
        return iter(self.known)


def scales(values: Sequence[Value], rows: Mapping[str, Iterable[str]], pilot_seeds: Collection[int] = ()) -> Scales:
    """The scales of pre-trainings, with what their fine-tunings scored.

    Args:
        values: of all runs.
        rows: row → the overrides that make it.
        pilot_seeds: of pilots, at every scale: a pilot is often shorter or smaller than what it chose a rate for.
    """
    trained = {folder: found[0] for folder, found in by(values, "run").items() if found[0].stage == "pretrain"}
    trained = {folder: each for folder, each in trained.items() if "start" not in json.loads(each.scale)[0]}  # those from scratch
    current = [each for each in trained.values() if each.is_current]
    used = [each for each in current if each.pretrain_seed not in pilot_seeds]
    # Without pre-trainings there is nothing to recognise, and composing the schemes of all rows takes time.
    names = {scheme(overrides): name for name, overrides in rows.items()} if trained else {}
    variants: dict[tuple[str, str], dict[Rates, list[Value]]] = {}
    for each in used:
        if each.scheme in names:
            variants.setdefault((each.scale, names[each.scheme]), {}).setdefault(each.rates, []).append(each)
    read_at = {key: max(rates.items(), key=lambda item: (len(item[1]), precedence(*item[0]))) for key, rates in variants.items()}
    of_runs = by((each for each in values if each.is_current), "origin")
    found = {key: made(*json.loads(key)) for key, _ in read_at}
    for key, scale in found.items():
        chosen = {row: runs for (of_scale, row), runs in read_at.items() if of_scale == key}
        scale.folders = {row: {seeds(each)[0]: each.run for each in runs} for row, (_, runs) in chosen.items()}
        recipe, steps = scale.meaning.get("recipe"), scale.meaning["steps"]
        scale.travels = {
            row: travel(recipe, steps, rates, *has_parameters(of_runs[runs[0].origin], json.loads(runs[0].scheme)["conv"]))
            for row, (rates, runs) in chosen.items()
        }
        scale.add({row: [one for each in runs for one in of_runs[each.origin]] for row, (_, runs) in chosen.items()})
    _tell_apart(found.values())
    known = sorted(found.values(), key=lambda scale: (scale.magnitude, scale.meaning["steps"], "first" not in scale.meaning))
    return Scales(known, len(trained) - len(current), len(current) - len(used))


def _tell_apart(scales: Iterable[Scale]) -> None:
    """Adds to a label that several scales have in what these differ, as in ` lr=0.003`: chance is corrected for by label."""
    alike: dict[str, list[tuple[Scale, Plain]]] = {}
    for scale in scales:
        dials = {key: value for key, value in scale.meaning.items() if key not in ("size", "recipe")}
        alike.setdefault(scale.label, []).append((scale, dials | scale.meaning["size"] | scale.meaning.get("recipe", {})))
    for group in alike.values():
        for scale, own in group:
            differing = [key for key, value in own.items() if any(other.get(key) != value for _, other in group)]
            scale.label += "".join(f" {key}={shown(own[key])}" for key in differing)


def made(meaning: Plain, store: str) -> Scale:
    """The scale of pre-trainings with this in common, still without runs: `4×256, 1,000 steps of 64, files (67a04f)`.

    Both stand in `Value.scale`.
    """
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


def tuned_checkpoint(name: str, start: Start) -> Scale:
    """The scale, still without runs, of fine-tunings of one network with one way of starting TISA."""
    way, reused = start
    label = f"fine-tuned from {name}, TISA from {'regression' if way == 'regression' else 'random values'}"
    meaning = {"checkpoint": name, "start": way, "reused": reused}
    # The authors' code had no other initial values than those by regression when the paper was written.
    is_of_paper = way == "regression" and not reused
    return Scale(meaning, "", label + ", one module" * reused, units="fine-tuning seeds", is_of_paper=is_of_paper)


def tuned_checkpoints(values: Iterable[Value]) -> list[Scale]:
    """The scales of fine-tunings that started from a network named by the user, if it has position embeddings.

    It has some if a fine-tuning removed them or fitted TISA to them. Nothing is left out here: the records do not show whether
    today's code would make these runs.
    """
    found: list[Scale] = []
    given = [each for each in values if each.stage == "finetune" and each.pretrain_seed is None and each.scale]
    for checkpoint, runs in by(given, "origin").items():
        changes = {scheme: json.loads(scheme) for scheme in by(runs, "scheme")}
        if not any(change.get("positions") == "remove" or change.get("start") == "regression" for change in changes.values()):
            continue
        # A scale for each way of starting TISA; the rows without it belong to all of them.
        for start in dict.fromkeys((change["start"], change["reused"]) for change in changes.values() if change.get("tisa")):
            rows = {scheme: row_of(change, start) for scheme, change in changes.items()}
            scale = tuned_checkpoint(name_of(Path(checkpoint)), start)
            scale.add({row: [each for each in runs if rows[each.scheme] == row] for row in rows.values() if row})
            found.append(scale)
    return found


def row_of(change: Plain, start: Start) -> str | None:
    """The row that a change makes of the network; None if no claim is about such a row."""
    without, with_tisa = ROWS[change.get("positions", "keep")]
    if not change.get("tisa"):
        return without
    is_row = change["tisa"] in NAMED_BY_S and (change["start"], change["reused"]) == start
    return with_tisa + NAMED_BY_S[change["tisa"]] if is_row else None


def seeds(each: Value) -> Seed:
    """The seeds of a value. Where fine-tunings of a named network are what is repeated: their own seed and 0."""
    return (each.seed, 0) if each.pretrain_seed is None else (each.pretrain_seed, each.seed)


def mean_of(columns: Sequence[Mapping[Seed, float]]) -> dict[Seed, float]:
    """Seeds → mean of the columns, for the seeds that all of them have: a mean over fewer columns would be high or low by which of
    them are missing.

    >>> mean_of([{(0, 0): 70.0, (0, 1): 71.0}, {(0, 0): 50.0}])
    {(0, 0): 60.0}
    """
    common = [seed for seed in columns[0] if all(seed in scores for scores in columns)]
    return {seed: sum(scores[seed] for scores in columns) / len(columns) for seed in common}


def by_pretraining(single: Mapping[Seed, float]) -> dict[int, float]:
    """Pre-training seed → mean over its fine-tunings."""
    return per_group([seed for seed, _ in single], list(single.values()))


def errors_above(values: Sequence[Value]) -> float:
    """Standard errors of the dev examples from the constant answer's score up to the mean; infinite where that is unknown.

    >>> errors_above([Value(Path(), "finetune", "rte", 70.0, metric="accuracy", majority=50.0, examples=100)])
    4.0
    """
    # By seeds: of two runs that differ in nothing else the last counts.
    scores, last = {seeds(each): each.value for each in values}, values[-1]
    if last.majority is None or not last.examples:
        return inf
    above = sum(scores.values()) / len(scores) - last.majority
    error = standard_error(last.majority, last.examples, last.metric)
    return above / error if error else copysign(inf, above) if above else 0.0


def named(column: str, only: Collection[str] | None = None) -> list[str]:
    """The columns that `column` stands for: `glue` for the nine, or for those of them that are in `only`."""
    return [name for name in GLUE if only is None or name in only] if column == MEAN else [column]


@cache
def _scheme(overrides: tuple[str, ...]) -> str:
    config = resolved(composed("pretrain", overrides))
    return json.dumps({key: config[key] for key in ("position", "conv")}, sort_keys=True)


def scheme(overrides: Iterable[str]) -> str:
    """Position scheme and convolution of a pre-training's overrides, as `Value.scheme` has them.

    >>> scheme(["position=tisa", "kernels=5", "size=small"]) == scheme(["position=tisa", "conv=none"])
    True
    >>> scheme(["position=tisa", "kernels=3"]) == scheme(["position=tisa"])
    False
    """
    return _scheme(tuple(override for override in overrides if key_of(override).split(".")[0] in SCHEME_KEYS))


def travel(recipe: Plain | None, steps: int, rates: Rates, has_position: bool = True, has_conv: bool = False) -> float | None:
    """About how far a parameter of a scheme can move: the sum of its learning rates over the steps. None if there is no recipe, or
    if neither the position scheme nor the convolution has parameters.

    Adam moves a parameter by about the learning rate in a step, at most.
    """
    position_lr, conv_lr = rates
    # A rate that no parameter has says nothing of how far one can move.
    moved = [slowest(position_lr)] * has_position + [slowest(position_lr) if conv_lr is None else conv_lr] * has_conv
    return Recipe.of(recipe).travel(steps) * min(moved) if moved and recipe and "lr" in recipe else None


def has_parameters(values: Iterable[Value], conv: Plain | None) -> tuple[bool, bool]:
    """Whether the position scheme of a pre-training of these values has parameters, as far as its record says, and whether there
    is a convolution.
    """
    counts = [each.value for each in values if each.column == "position_parameters"]
    return not counts or max(counts) > 0, class_of(conv) != plateau.NONE


def short_travel(travels: Iterable[float | None]) -> str:
    """A sentence where parameters of a row could not move far in the training, which alone may make rows differ; else empty."""
    least = min((each for each in travels if each is not None), default=SHORT_TRAVEL)
    if least >= SHORT_TRAVEL:
        return ""
    return (
        f"position parameters could move by at most about {least:.2g} (the sum of their learning rates); "
        f"below {SHORT_TRAVEL:g} a scheme may lose by that alone: more steps, or recipe.position_lr"
    )

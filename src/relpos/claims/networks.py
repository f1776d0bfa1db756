"""Judgements of the kernels and positions that trained networks have learned.

Measures of the networks are read from the folders of their runs, or taken now where the weights are
here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, NamedTuple

import numpy as np

from relpos.analysis.kernels import kind, kinds_by_chance
from relpos.claims.verdict import Evidence, Judgement, Verdict, all_of, joined
from relpos.errors import plural, refuse_unknown
from relpos.measures.kinds.kernels import Kernels, near
from relpos.measures.kinds.patterns import NEAR, HeadProfiles
from relpos.measures.kinds.toeplitz import Toeplitz
from relpos.measures.measure import Measure
from relpos.measures.measured import is_here, measured
from relpos.measures.sample import Sample
from relpos.readers import Plain
from relpos.results.scale import Scale
from relpos.results.statistics import FAILS, HOLDS, NOT_HERE, NOT_RUN, UNDECIDED
from relpos.runs.networks import resolve

CLOSE, FAR = 0.8, 0.5
MEASURES: dict[str, Measure] = {
    "kernels": Kernels(),
    "channels": Kernels(),
    "heads": HeadProfiles(),
    "table": Toeplitz(),
}
"""Object of a judgement → the measure that has it."""


@dataclass(frozen=True)
class OfNetworks(Judgement):
    """A judgement of the networks of one row at one scale.

    Args:
        row: the row of the networks.
        of: the object that is judged, one of `objects`.
    """

    row: str
    of: str
    objects: ClassVar[Sequence[str]] = ()

    def __post_init__(self) -> None:
        refuse_unknown("of: unknown", self.of, self.objects)

    @property
    def rows(self) -> tuple[str, ...]:
        return (self.row,)

    def judge(self, scale: Scale) -> Verdict | None:
        if self.row not in scale.folders:
            return None
        measure = MEASURES[self.of]
        # A record without its configuration cannot lead to a network.
        whole = [at for at in scale.folders[self.row].values() if (at / "config.yaml").exists()]
        networks = [network for network in map(resolve, whole) if is_here(network, measure)]
        if not networks:
            results = f"results of relpos order measure={measure.name}"
            return Verdict(NOT_RUN, f"needs {results}, or the weights of {self.row}")
        return self.judged(scale, [measured(Sample(network), [measure]) for network in networks])

    def judged(self, scale: Scale, results: Sequence[Plain]) -> Verdict:
        """The verdict on the results of the networks' measures."""
        raise NotImplementedError


class Share(NamedTuple):
    """The number of kernels that have a property, and the fraction that has it by chance."""

    name: str
    having: int
    number: int
    chance: float

    def p(self, side: str) -> float:
        """p-value of the one-sided binomial test that they are `greater` or `less` than by
        chance."""
        from scipy.stats import binomtest

        if not self.number:
            return 1.0
        return float(binomtest(self.having, self.number, self.chance, alternative=side).pvalue)

    @property
    def percent(self) -> str:
        return f"{self.having / max(1, self.number):.0%}"


@dataclass(frozen=True)
class Shares(OfNetworks):
    """More kernels have a property than by chance, over all networks of a row together.

    `kernels`, and `heads` to whose scores positions add something, are of one of the kinds of
    `relpos.analysis.kernels`; chance is the same weights in random order, and uniform kernels are
    not counted. `channels` of depthwise convolutions have their largest or their smallest weight at
    −1 or +1; chance is 2 of 2k+1 places. Holds: one-sided binomial tests at 0.05 show it. Fails:
    they show the opposite. Kernels count as independent, although those of one network are not
    quite.
    """

    objects = ("kernels", "channels", "heads")

    @property
    def says(self) -> str:
        if self.of == "channels":
            where = "largest weight at −1 or +1, others their smallest"
            return f"channels of {self.row} have their {where}, more often than by chance"
        return f"more {self.of} of {self.row} are of one of the kinds than by chance"

    def judged(self, scale: Scale, results: Sequence[Plain]) -> Verdict:
        shares, figures = _channels(results) if self.of == "channels" else _kinds(results, self.of)
        whole = all_of([Evidence(share.p("greater"), share.p("less")) for share in shares])
        return Verdict(whole.verdict, figures, p=whole.p, takes="more pre-training seeds")


def _kinds(results: Sequence[Plain], of: str) -> tuple[list[Share], str]:
    kernels_of = _profiles if of == "heads" else near
    kernels = np.concatenate([kernels_of(of_network) for of_network in results])
    kinds = [kind(kernel) for kernel in kernels]
    counts = Counter(kinds)
    # A uniform kernel stays uniform in any order of its weights.
    shaped = kernels[[name != "uniform" for name in kinds]]
    having = len(shaped) - counts["other"]
    share = Share("kinds", having, len(shaped), kinds_by_chance(shaped))
    models = f"{len(kernels)} kernels of {plural(len(results), 'model')}"
    figures = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    compared = f"{share.percent} of {share.number} not uniform have a kind"
    return [share], f"{models}: {figures}; {compared}, {share.chance:.0%} in random order"


def _profiles(results: Plain) -> np.ndarray:
    """(heads, 17): the scores that positions add at offsets −8 … 8; no heads where they add
    none."""
    heads = results["pattern"]["near"] if results["pattern"] else []
    return np.array(heads, np.float64).reshape(-1, 2 * NEAR + 1)


def _channels(results: Sequence[Plain]) -> tuple[list[Share], str]:
    channels = (of_network["kernels"]["channel"] for of_network in results)
    layers = list(map(np.array, chain.from_iterable(channels)))
    width, number = layers[0].shape[1], sum(map(len, layers))
    chance, shares, by_layer = 2 / width, [], []
    for name, place in (("largest", np.argmax), ("smallest", np.argmin)):
        beside = [np.abs(place(layer, axis=1) - width // 2) == 1 for layer in layers]
        shares.append(Share(name, int(np.concatenate(beside).sum()), number, chance))
        by_layer.append([f"{of_layer.mean():.0%}" for of_layer in beside])
    figures = [f"{share.name} {share.percent} (p {share.p('greater'):.1g})" for share in shares]
    whole = f"weight at −1 or +1 of {number:,} channels: {', '.join(figures)}"
    layerwise = " ".join(map("/".join, zip(*by_layer, strict=True)))
    return shares, f"{whole}, by chance {chance:.0%}; by layer {layerwise}"


@dataclass(frozen=True)
class Toeplitzness(OfNetworks):
    """The median R² of a matrix of positions and its nearest Toeplitz matrix is close to 1.

    For `table` the matrix is P = E·E^T without its main diagonal, which alone gives a random (n, d)
    table about d/(d + n); only rows count that at least half of the training examples reach. For
    `heads` it is the scores that positions add in the first layer. Holds: the median over networks,
    which a single untrained one hardly moves, is 0.8 or more, and above random tables. Fails: it is
    below 0.5, or not above random tables. A row on the bag-of-words plateau has random positions.
    """

    objects = ("table", "heads")

    @property
    def says(self) -> str:
        products = "the position products of the heads"
        if self.of == "table":
            products = "P = E·E^T without its main diagonal"
        return f"R² of {products} of {self.row} is {CLOSE} or more (fails below {FAR})"

    def judged(self, scale: Scale, results: Sequence[Plain]) -> Verdict:
        values, chance, figures = {"table": _table, "heads": _heads}[self.of](results)
        if not values:
            return Verdict(NOT_RUN, f"{self.row} has no position products")
        takes = f"longer training, for instance steps={2 * scale.meaning['steps']}"
        if scale.is_on_plateau(self.row) is not False:
            why = f"{self.row} is not known to have left the bag-of-words plateau"
            return Verdict(NOT_HERE, joined([why, figures]), takes=takes)
        middle = float(np.median(values))
        if middle < FAR or middle <= chance:
            return Verdict(FAILS, figures)
        if middle >= CLOSE:
            return Verdict(HOLDS, figures)
        return Verdict(UNDECIDED, figures, takes=takes)


def _table(results: Sequence[Plain]) -> tuple[Sequence[float], float, str]:
    tables = [of_network["toeplitz"] for of_network in results]
    off = [table["r2_off"] for table in tables]
    whole, listed = (", ".join(f"{table[key]:.2f}" for table in tables) for key in ("r2", "r2_off"))
    chance, chance_off = (max(table[key] for table in tables) for key in ("chance", "chance_off"))
    # All runs of a scale read the same text, so that the first one's rows are those of all.
    reached = f"positions 1 to {tables[0]['rows']}, which half of the examples reach"
    figures = f"R² {whole} of {plural(len(tables), 'model')}, {reached}; "
    figures += f"the highest of {Toeplitz.random} random tables {chance:.2f}; "
    figures += f"without the main diagonal {listed}, random {chance_off:.2f}"
    return off, chance_off, figures


def _heads(results: Sequence[Plain]) -> tuple[Sequence[float], float, str]:
    heads = [r2 for of_network in results for r2 in (of_network["pattern"] or {"r2": []})["r2"]]
    values = [value for value in heads if value is not None]
    if not values:
        return [], 0.0, ""
    spread = f"R² {min(values):.2f} to {max(values):.2f}, median {np.median(values):.2f}"
    return values, 0.0, f"{spread}, over {len(values)} heads of the first layer"

"""Rules about what trained networks have learned, as their kernels and positions show it.

What is judged was measured of the networks and kept in the folders of their runs, or is measured now where the weights are here.
How close to Toeplitz positions are (Wennberg & Henter 2021, Section 3, Appendix B) is the R² of `relpos.measures.kinds.toeplitz`:
0.8 or more counts as close, less than 0.5 as not close. Of a position table only those rows count that at least half of the
training examples reach. A network that has learned no order says nothing of trained positions: its table is still random.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import product
from math import atanh, ceil, isnan, log2
from pathlib import Path
from typing import Any

import numpy as np

from relpos.analysis.fit import fit_heads
from relpos.analysis.kernels import kind, kinds_by_chance
from relpos.claims.comparisons import decided
from relpos.claims.rule import Place, Rule, Says, Test, each_scale, rule
from relpos.claims.verdict import Evidence, Verdict, joined, longer, more_seeds, sided
from relpos.errors import plural
from relpos.measures.kept import is_here, seen
from relpos.measures.kinds.kernels import Kernels, near
from relpos.measures.kinds.patterns import NEAR, Patterns
from relpos.measures.kinds.toeplitz import Toeplitz
from relpos.measures.measure import Measure, Measured
from relpos.measures.sample import Sample
from relpos.results.scale import Scale, Scales
from relpos.results.statistics import ALPHA, FAILS, HOLDS, NOT_HERE, NOT_RUN, UNDECIDED, Difference, paired, trials
from relpos.runs.networks import resolve

CLOSE, NOT_CLOSE = 0.8, 0.5
TABLES = Toeplitz()
FOR_CORRELATION = 5
"""The fewest runs over which a correlation is computed."""
ENOUGH = 24
"""The fewest kernels among which a kind that none has counts as missing."""
SHORT = 2
"""The largest offset that counts as a short distance."""
LEAST_TYPED = 0.1
"""If a smaller fraction of the kernels has a kind at the end, nothing can be said about when they took it."""
Networks = Mapping[int, Measured]
"""Seed of a pre-training → what was measured of its network."""


def about_weights(
    measure: Measure, says: Says, is_about_order: bool = False, course: bool = False
) -> Callable[[Callable[..., Verdict]], Rule]:
    """Makes a rule of a judge that looks at the networks of one row at one scale.

    Where neither results nor weights came along (`relpos merge`), it says so. Published checkpoints come last.

    Args:
        measure: of which the judge reads the results.
        is_about_order: whether it says nothing of a row on the bag-of-words plateau, whose positions are still random.
        course: whether it reads the results of snapshots, too.
    """

    def made(judge: Callable[..., Verdict]) -> Rule:
        @wraps(judge)
        def look(test: Test, scale: Scale, **options: Any) -> Verdict | None:
            found = networks(scale.folders[test.row], measure, course)
            if not found:
                where = f"(relpos merge FOLDER weights=true), or results of relpos order measure={measure.name}"
                return Verdict(NOT_RUN, f"needs the weights of {test.row}, which are not here {where}")
            verdict = judge(scale, test.row, found, **options)
            # A published checkpoint has left the plateau long ago, and only what it can tell is said.
            if not scale.can_go_on:
                return None if verdict.verdict == NOT_RUN else verdict
            return _unless_random(verdict, scale, test.row) if is_about_order else verdict

        return rule(says, _having)(look)

    return made


def networks(folders: Mapping[int, Path], measure: Measure, course: bool = False) -> dict[int, Measured]:
    """What is kept of some pre-trainings, or can be measured here."""
    # A record that came alone, without its configuration, says nothing of a network.
    whole = {seed: at for seed, at in folders.items() if (at / "config.yaml").exists() or not (at / "record.json").exists()}
    named = {seed: resolve(folder) for seed, folder in whole.items()}
    return {seed: seen(Sample(network), [measure], course) for seed, network in named.items() if is_here(network, measure)}


def _having(test: Test, runs: Scales) -> list[Place]:
    """The scales, then the published checkpoints, that have the row."""
    own, published = ([scale for scale in scales if test.row in scale.folders] for scales in (runs, runs.published))
    return each_scale(test, [*(own[-1:] if test.at == "largest" else own), *published])


def _unless_random(found: Verdict, scale: Scale, row: str) -> Verdict:
    """Positions of a row that is on the plateau, or of which nobody knows, are still random."""
    if found.verdict == NOT_RUN or (on_it := scale.is_on_plateau(row)) is False:
        return found
    if on_it is None:
        verdict, why, takes = UNDECIDED, f"whether {row} has learned any order was not measured", "relpos order measure=shuffle"
    else:
        verdict, why, takes = NOT_HERE, f"{row} is on the bag-of-words plateau, so its positions are still random", longer(scale)
    return replace(found, verdict=verdict, figures=joined([why, found.figures]), p=None, takes=takes)


def _says_kinds(test: Test, groups: Sequence[Sequence[str]], **_: Any) -> str:
    return f"kernels of {test.row} are of the kinds {', '.join(map('/'.join, groups))}, more than by chance"


@about_weights(Kernels(), _says_kinds)
def kernel_kinds(scale: Scale, row: str, found: Networks, *, groups: Sequence[Sequence[str]] = ()) -> Verdict:
    """The kernels of a row are of the kinds of `relpos.analysis.kernels`, each group of kinds at least once.

    Holds: every group occurs, and more kernels have a kind than if their weights were shuffled (one-sided binomial test at 0.05;
    uniform kernels are not counted). Fails: a group is missing among 24 kernels or more, or fewer kernels have a kind than if their
    weights were shuffled.

    Args:
        groups: lists of kinds; at least one kernel must have a kind of each list.
    """
    return _of_kinds(scale, row, [near(network.results) for network in found.values()], groups)


@about_weights(Patterns(), _says_kinds)
def profile_kinds(scale: Scale, row: str, found: Networks, *, groups: Sequence[Sequence[str]] = (), short: bool = False) -> Verdict:
    """The same of what positions add to the scores of each head of the first layer, instead of learned kernels.

    Args:
        groups: as of `kernel_kinds`.
        short: at least half of the heads that are not uniform must peak at a distance of two tokens or less.
    """
    patterns = _results(found, "pattern")
    kernels = [np.array(pattern["near"] if pattern else [], np.float64).reshape(-1, 2 * NEAR + 1) for pattern in patterns]
    return _of_kinds(scale, row, kernels, groups, short)


def _of_kinds(
    scale: Scale, row: str, of_models: Sequence[np.ndarray], groups: Sequence[Sequence[str]], short: bool = False
) -> Verdict:
    kernels = np.concatenate(of_models)
    kinds = [kind(kernel) for kernel in kernels]
    counts, shaped = Counter(kinds), kernels[[name != "uniform" for name in kinds]]
    # A uniform kernel stays uniform in any order of its weights.
    n, having, chance = len(shaped), len(shaped) - counts["other"], kinds_by_chance(shaped)
    missing = ["/".join(group) for group in groups if not any(counts[name] for name in group)]
    # Both sides, each at 0.05: fewer than by chance speaks against the claim, about as many leaves it undecided.
    more, fewer = (_by_chance(having, n, chance, side) for side in ("greater", "less"))
    typed, verdict = having / max(1, n), UNDECIDED
    is_near = bool(n and np.mean(np.abs(np.nanargmax(shaped, axis=1) - shaped.shape[1] // 2) <= SHORT) >= 0.5)
    if not missing and more < ALPHA and (is_near or not short):
        verdict = HOLDS
    elif (missing and len(kernels) >= ENOUGH) or fewer < ALPHA:
        verdict = FAILS
    times = ENOUGH / len(kernels) if missing else trials(typed, chance, max(1, n))
    takes = more_seeds(scale, row, ceil(times * len(of_models)))
    said = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    absent = f"; none is {', '.join(missing)}" if missing else ""
    compared = f"{typed:.0%} of {n} not uniform have a kind, {chance:.0%} in random order"
    figures = f"{len(kernels)} kernels of {plural(len(of_models), 'model')}: {said}; {compared}{absent}"
    return Verdict(verdict, figures, p=min(more, fewer, 1.0), takes=takes)


@about_weights(
    Kernels(), "channels of {row} have their largest weight at −1 or +1, others their smallest, more often than by chance"
)
def neighbours(scale: Scale, row: str, found: Networks) -> Verdict:
    """Depthwise kernels have their largest weight at −1 or +1 more often than by chance (2 of 2k+1 places), and so their smallest.

    Holds: one-sided binomial tests at 0.05 show both, over all channels of all layers. Fails: they show neither.
    """
    counts: Counter[str] = Counter()
    by_layer: list[str] = []
    extremes = {"largest": np.argmax, "smallest": np.argmin}
    # Channels count as independent, though those of one network are not quite: the p-value may be too small.
    for kernels in [np.array(layer) for of_network in _results(found, "kernels") for layer in of_network["channel"]]:
        middle = kernels.shape[1] // 2
        beside = {name: int((np.abs(place(kernels, axis=1) - middle) == 1).sum()) for name, place in extremes.items()}
        counts.update(beside | {"all": len(kernels)})
        by_layer.append("/".join(f"{count / len(kernels):.0%}" for count in beside.values()))
    chance, n = 2 / kernels.shape[1], counts["all"]
    p = {name: _by_chance(counts[name], n, chance, "greater") for name in extremes}
    unclear = [name for name in extremes if p[name] >= ALPHA]
    verdict = (HOLDS, UNDECIDED, FAILS)[len(unclear)]
    times = max((trials(counts[name] / n, chance, n) for name in unclear), default=0.0)
    said = ", ".join(f"{name} {counts[name] / n:.0%} (p {p[name]:.1g})" for name in extremes)
    figures = f"weight at −1 or +1 of {n:,} channels: {said}, by chance {chance:.0%}; by layer {' '.join(by_layer)}"
    # Both halves of the claim must hold, so that the weaker one counts.
    weaker = max(p.values()) if verdict == HOLDS else None
    return Verdict(verdict, figures, p=weaker, takes=more_seeds(scale, row, ceil(times * len(found))))


@about_weights(Kernels(), "kernels of {row} have their kinds after {early} % of the steps", course=True)
def early_kinds(scale: Scale, row: str, found: Networks, *, early: int = 10) -> Verdict:
    """Kernels take their kinds early: after a tenth of the steps at least four fifths as many have one as at the end.

    The counts of all models together decide. Not run without a snapshot in the first tenth of the steps. Uniform kernels count as
    having no kind; if fewer than a tenth of the kernels have a kind at the end, the claim is undecided.
    """
    early_ones = [(network, [percent for percent in network.course if percent <= early]) for network in found.values()]
    both = [(network.course[max(percents)], network.results) for network, percents in early_ones if percents]
    if not both:
        return Verdict(NOT_RUN, f"needs snapshots=[…] at {early} % or before")
    typed = [[np.mean([kind(each) not in ("uniform", "other") for each in near(results)]) for results in pair] for pair in both]
    # All models together: each alone has a dozen kernels.
    then, late = np.mean(typed, axis=0)
    # Four fifths of few kernels would be a matter of one or two.
    verdict = UNDECIDED if late < LEAST_TYPED else HOLDS if then >= 0.8 * late else FAILS
    figures = f"{then:.0%} of the kernels early, {late:.0%} at the end, {plural(len(typed), 'model')}"
    return Verdict(verdict, figures, takes=longer(scale))


@about_weights(Patterns(), "S = {kernels} is fitted to {heads} profiles like those of {row} in less than {seconds:g} s")
def fits_fast(scale: Scale, row: str, found: Networks, *, kernels: int = 5, heads: int = 144, seconds: float = 20.0) -> Verdict:
    """Fitting TISA to the profiles of trained heads is fast; a profile is what positions add to a head's scores, by offset.

    The profiles of the first layer, repeated until they are `heads`, are fitted at once, S being `kernels`: the paper's 2,160
    parameters are 144 heads with S = 5 (Wennberg & Henter 2021, Appendix C). Holds below `seconds` of CPU time, fails above. The R²
    of each fit is shown.
    """
    shown = _of_heads(found, "mean")
    if not shown:
        return Verdict(NOT_RUN, f"{row} has no position products")
    fit_heads(shown[:1], kernels)  # so that importing torch is not part of the time
    # Fitted are as many heads as are timed, since time is not proportional to them: they share out the random starts.
    repeated = np.resize(shown, (heads, len(shown[0])))
    began = time.process_time()
    fits = fit_heads(repeated, kernels)
    took = time.process_time() - began
    r2 = ", ".join(f"{fit.r2:.3f}" for fit in fits[: len(shown)])
    figures = f"{took:.1f} s for {heads} heads; R² of the fits {r2} ({plural(len(found), 'model')})"
    return Verdict(HOLDS if took < seconds else FAILS, figures)


@about_weights(
    TABLES,
    f"R² of P = E·E^T of {{row}} is {CLOSE} or more (fails below {NOT_CLOSE}), and above {TABLES.random} random tables",
    is_about_order=True,
)
def close_to_toeplitz(scale: Scale, row: str, found: Networks) -> Verdict:
    """The median R² of P = E E^T over the models is close to 1, and above that of random tables of the same shape.

    The diagonal of P makes R² about d/(d + n) for a random (n, d) table, 0.86 for (128, 768). Holds: the median is `CLOSE` or more
    and above every one of 20 random tables. Fails: it is not above all of them, or below `NOT_CLOSE`.
    """
    values, chance = _of_tables(found, "r2"), max(_of_tables(found, "chance"))
    # R² of P has no known null distribution: the trained tables must be above all of the random ones.
    verdict = _judged(values) if float(np.median(values)) > chance else FAILS
    said = ", ".join(f"{value:.2f}" for value in values)
    off, chance_off = _off_diagonal(_of_tables(found, "r2_off")), max(_of_tables(found, "chance_off"))
    figures = (
        f"R² {said} of {plural(len(values), 'model')}, {_positions(scale, found)}; the highest of {TABLES.random} random tables"
        f" {chance:.2f}{off}, random {chance_off:.2f}"
    )
    return Verdict(verdict, figures, takes=longer(scale))


@about_weights(
    Patterns(), f"R² of the position products of {{row}}'s heads is {CLOSE} or more (fails below {NOT_CLOSE})", is_about_order=True
)
def profiles_close_to_toeplitz(scale: Scale, row: str, found: Networks) -> Verdict:
    """What positions add to the scores of the heads of the first layer is close to Toeplitz: the median R² over heads and models.

    The bounds are those of `close_to_toeplitz`; there is no comparison with random tables.
    """
    values = [value for value in _of_heads(found, "r2") if value is not None]
    if not values:
        return Verdict(NOT_RUN, f"{row} has no position products")
    spread = f"R² {min(values):.2f} to {max(values):.2f}, median {np.median(values):.2f}"
    return Verdict(_judged(values), f"{spread}, over {len(values)} heads of the first layer", takes=longer(scale))


@about_weights(TABLES, "R² of P of {row} rises along the training", course=True)
def rises_with_training(scale: Scale, row: str, found: Networks) -> Verdict:
    """R² of P rises along the snapshots of a run: its slope over log2 of the steps.

    Holds: the 95 % interval of the mean slope over runs lies above zero. Fails: it lies below. A single run leaves it undecided.
    """
    slopes, said = [], []
    for network in found.values():
        if len(network.course) < 3:
            continue
        # Over log2 of the per cent of the steps, because early snapshots lie close together and change most.
        course = {percent: results["toeplitz"] for percent, results in sorted(network.course.items())}
        r2 = [each["r2"] for each in course.values()]
        slopes.append(float(np.polyfit(list(map(log2, course)), r2, 1)[0]))
        values = " ".join(f"{percent} %: {value:.2f}" for percent, value in zip(course, r2, strict=True))
        said.append(values + _off_diagonal([each["r2_off"] for each in course.values()]))
    if not slopes:
        return Verdict(NOT_RUN, "needs three snapshots=[…] or more of a run")
    slope = f"slope {np.mean(slopes):+.3f} per doubling over {plural(len(slopes), 'run')}, {_positions(scale, found)}"
    return _above_zero(scale, row, f"{'; '.join(said)}; {slope}", paired(slopes), " with three snapshots=[…] or more")


@about_weights(TABLES, "R² of P and held-out loss of {row} are negatively correlated among runs of equal steps")
def goes_with_score(scale: Scale, row: str, found: Networks) -> Verdict:
    """Among runs of equal steps, those with a higher R² of P have a lower held-out loss: Spearman's ρ over five runs or more."""
    from scipy.stats import spearmanr

    if len(found) < FOR_CORRELATION:
        return Verdict(NOT_RUN, f"needs {FOR_CORRELATION} pre-training seeds or more; there are {len(found)}")
    losses = scale.losses()[row]
    correlated = spearmanr(_of_tables(found, "r2"), [losses[seed] for seed in found])
    # NaN where all R² or all losses are equal, which says nothing of how they go together.
    rho, p = (0.0, 1.0) if isnan(correlated.statistic) else (float(correlated.statistic), float(correlated.pvalue))
    evidence = Evidence(p if rho < 0 else 1.0, p if rho > 0 else 1.0)
    figures = f"ρ {rho:+.2f}, p {p:.2g}, {len(found)} runs, {_positions(scale, found)}"
    # So many runs find it with probability 0.8, by Fisher's z, whose variance is 1 / (n − 3); 2.8 = 1.96 + 0.84, normal quantiles.
    needed = ceil(3 + (2.8 / atanh(min(max(abs(rho), 0.01), 0.99))) ** 2)
    return Verdict(evidence.verdict, figures, p=evidence.p, takes=more_seeds(scale, row, needed))


@about_weights(
    TABLES,
    "R² of P of {row}: higher among the last positions that half of the examples reach than among as many after",
    is_about_order=True,
)
def seldom_trained_is_less(scale: Scale, row: str, found: Networks) -> Verdict:
    """The last positions that half of the training examples reach have a higher R² than as many after them.

    Both blocks are equally wide, because R² falls with the width. Holds: the 95 % interval of the difference over models lies above
    zero. Fails: it lies below.
    """
    if not all(_of_tables(found, "beside")):
        return Verdict(NOT_RUN, "needs runs on examples shorter than size.max_positions=: half of them reach all positions")
    # The last ones that were trained and not all: the first positions stand in every example, and differ by that, too.
    inside, outside = zip(*_of_tables(found, "beside"), strict=True)
    end, width = _of_tables(found, "rows")[0], _of_tables(found, "beside_width")[0]
    said = [f"{np.mean(some):.2f} of positions {n - width + 1} to {n}" for some, n in ((inside, end), (outside, end + width))]
    return _above_zero(scale, row, f"R² {', '.join(said)}, {plural(len(found), 'run')}", paired(inside, outside))


@rule(
    lambda test, newer, older: (
        f"R² of P of each {' and '.join(newer)} is above that of each {' and '.join(older)} with a table of the same shape"
    ),
    places=lambda test, runs: [("published networks", runs.published)],
)
def newer_is_more(test: Test, *scales: Scale, newer: Sequence[str], older: Sequence[str]) -> Verdict:
    """R² of P of every published network of the newer families is above that of every one of the older; fails otherwise.

    R² depends on the shape of a table, so that only tables of one shape are compared. Families are named by their `model_type`.
    """
    tables = {
        (scale.meaning["family"], scale.label): network.results["toeplitz"]
        for scale in scales
        for network in networks(scale.folders["absolute"], TABLES).values()
    }
    of_newer, of_older = ([key for key in tables if key[0] in known] for known in (newer, older))
    pairs = [(new, old) for new, old in product(of_newer, of_older) if tables[new]["shape"] == tables[old]["shape"]]
    if not pairs:
        needs = f"needs published networks of both kinds, {'/'.join(newer)} and {'/'.join(older)}: network=[…]"
        return Verdict(NOT_RUN, needs, "—")
    verdict = HOLDS if all(tables[new]["P"] > tables[old]["P"] for new, old in pairs) else FAILS
    said = [f"{key[1]} {tables[key]['P']:.2f}" for key in dict.fromkeys(key for pair in pairs for key in pair)]
    return Verdict(verdict, f"R² of P: {', '.join(said)}")


def _by_chance(count: int, of: int, chance: float, side: str) -> float:
    """p-value of the one-sided binomial test that `count` of so many trials are `greater` or `less` than by chance."""
    from scipy.stats import binomtest

    return float(binomtest(count, of, chance, alternative=side).pvalue) if of else 1.0


def _results(found: Networks, name: str) -> list[Any]:
    return [network.results[name] for network in found.values()]


def _of_tables(found: Networks, key: str) -> list[Any]:
    return [each[key] for each in _results(found, "toeplitz")]


def _of_heads(found: Networks, key: str) -> list[Any]:
    """What `Patterns` has measured of each head of all networks."""
    return [value for pattern in _results(found, "pattern") if pattern for value in pattern[key]]


def _positions(scale: Scale, found: Networks) -> str:
    # Those of the first: all runs of a scale read the same text.
    return f"positions 1 to {_of_tables(found, 'rows')[0]}" + ", which half of the examples reach" * scale.can_go_on


def _off_diagonal(values: Sequence[float]) -> str:
    """`; without the main diagonal 0.04, 0.06`"""
    return f"; without the main diagonal {', '.join(f'{value:.2f}' for value in values)}"


def _judged(values: Sequence[float]) -> str:
    # The median, which one network that did not learn hardly moves.
    middle = float(np.median(values))
    return HOLDS if middle >= CLOSE else FAILS if middle < NOT_CLOSE else UNDECIDED


def _above_zero(scale: Scale, row: str, figures: str, tested: Difference | None, how: str = "") -> Verdict:
    """The verdict on a difference over the models of one row; a single model leaves it undecided."""
    return decided(scale, [figures], [tested], lambda known: sided(known[0]), more_seeds(scale, row, how=how), of_row=row)

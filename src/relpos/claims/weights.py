"""Rules about what trained networks have learned, as their kernels and profiles show it.

What is judged was measured of the networks and kept in the folders of their runs, or is measured now where the weights are here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from relpos.analysis.fit import fit_heads
from relpos.analysis.kernels import kind, tally
from relpos.claims.rule import Place, Rule, Says, Test, each_scale, options_of
from relpos.claims.verdict import FAILS, HOLDS, NOT_HERE, NOT_RUN, UNDECIDED, Verdict, joined, longer, models, plural
from relpos.measures.kept import is_here, seen
from relpos.measures.kinds.kernels import Kernels, near
from relpos.measures.kinds.patterns import NEAR, Patterns
from relpos.measures.measure import Measure, Measured
from relpos.measures.sample import Sample
from relpos.results.scale import Scale, Scales
from relpos.results.statistics import ALPHA, MOST, trials
from relpos.runs.networks import resolve

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

        return Rule(look, options_of(judge), says, _having)

    return made


def networks(folders: Mapping[int, Path], measure: Measure, course: bool = False) -> dict[int, Measured]:
    """What is kept of some pre-trainings, or can be measured here."""
    # A record that came alone, without its configuration, says nothing of a network.
    whole = {
        seed: folder
        for seed, folder in folders.items()
        if (folder / "config.yaml").exists() or not (folder / "record.json").exists()
    }
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


def _says_kinds(test: Test) -> str:
    groups = ", ".join("/".join(group) for group in test.options["groups"])
    return f"kernels of {test.row} are of the kinds {groups}, more than by chance"


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
    patterns = [network.results["pattern"] for network in found.values()]
    kernels = [np.array(pattern["near"] if pattern else [], np.float64).reshape(-1, 2 * NEAR + 1) for pattern in patterns]
    return _of_kinds(scale, row, kernels, groups, short)


def _of_kinds(
    scale: Scale, row: str, of_models: Sequence[np.ndarray], groups: Sequence[Sequence[str]], short: bool = False
) -> Verdict:
    from scipy.stats import binomtest

    kernels = np.concatenate(of_models)
    found = tally(kernels)
    n, missing = len(found.shaped), ["/".join(group) for group in groups if not any(found.counts[name] for name in group)]
    # Both sides, each at 0.05: fewer than by chance speaks against the claim, about as many leaves it undecided.
    more, fewer = (
        float(binomtest(found.typed, n, found.chance, alternative=side).pvalue) if n else 1.0 for side in ("greater", "less")
    )
    typed = found.typed / max(1, n)
    verdict, takes = UNDECIDED, ""
    peaks = np.abs(found.shaped.argmax(axis=1) - found.shaped.shape[1] // 2) if n else np.zeros(0)
    is_near = bool(n and np.mean(peaks <= SHORT) >= 0.5)
    if not missing and more < ALPHA and (is_near or not short):
        verdict = HOLDS
    elif (missing and len(kernels) >= ENOUGH) or fewer < ALPHA:
        verdict = FAILS
    else:
        times = ENOUGH / len(kernels) if missing else trials(typed, found.chance, max(1, n))
        takes = models(scale, row, ceil(times * len(of_models))) if times < MOST else longer(scale)
    said = ", ".join(f"{name} {count}" for name, count in found.counts.most_common())
    absent = f"; none is {', '.join(missing)}" if missing else ""
    compared = f"{typed:.0%} of {n} not uniform have a kind, {found.chance:.0%} in random order"
    figures = f"{len(kernels)} kernels of {plural(len(of_models), 'model')}: {said}; {compared}{absent}"
    return Verdict(verdict, figures, p=min(more, fewer, 1.0), takes=takes)


_PLACES = {"largest": np.argmax, "smallest": np.argmin}


@about_weights(
    Kernels(), "channels of {row} have their largest weight at −1 or +1, others their smallest, more often than by chance"
)
def neighbours(scale: Scale, row: str, found: Networks) -> Verdict:
    """Depthwise kernels have their largest weight at −1 or +1 more often than by chance (2 of 2k+1 places), and so their smallest.

    Holds: one-sided binomial tests at 0.05 show both, over all channels of all layers. Fails: they show neither.
    """
    from scipy.stats import binomtest

    counts: Counter[str] = Counter()
    by_layer: list[str] = []
    # Channels count as independent, though those of one network are not quite: the p-value may be too small.
    for kernels in [np.array(layer) for network in found.values() for layer in network.results["kernels"]["channel"]]:
        middle = kernels.shape[1] // 2
        beside = {name: int((np.abs(place(kernels, axis=1) - middle) == 1).sum()) for name, place in _PLACES.items()}
        counts.update(beside | {"all": len(kernels)})
        by_layer.append(f"{beside['largest'] / len(kernels):.0%}/{beside['smallest'] / len(kernels):.0%}")
    chance, n = 2 / kernels.shape[1], counts["all"]
    p = {name: float(binomtest(counts[name], n, chance, alternative="greater").pvalue) for name in _PLACES}
    unclear = [name for name in _PLACES if p[name] >= ALPHA]
    verdict, takes = (HOLDS, UNDECIDED, FAILS)[len(unclear)], ""
    if verdict == UNDECIDED:
        takes = models(scale, row, ceil(max(trials(counts[name] / n, chance, n) for name in unclear) * len(found)))
    said = ", ".join(f"{name} {counts[name] / n:.0%} (p {p[name]:.1g})" for name in _PLACES)
    figures = f"weight at −1 or +1 of {n:,} channels: {said}, by chance {chance:.0%}; by layer {' '.join(by_layer)}"
    # Both halves of the claim must hold, so that the weaker one counts.
    return Verdict(verdict, figures, p=max(p.values()) if verdict == HOLDS else None, takes=takes)


@about_weights(Kernels(), "kernels of {row} have their kinds after {early} % of the steps", course=True)
def early_kinds(scale: Scale, row: str, found: Networks, *, early: int = 10) -> Verdict:
    """Kernels take their kinds early: after a tenth of the steps at least four fifths as many have one as at the end.

    The counts of all models together decide. Not run without a snapshot in the first tenth of the steps. Uniform kernels count as
    having no kind; if fewer than a tenth of the kernels have a kind at the end, the claim is undecided.
    """
    early_ones = [(network, [percent for percent in network.course if percent <= early]) for network in found.values()]
    typed = [
        [
            np.mean([kind(kernel) not in ("uniform", "other") for kernel in near(results)])
            for results in (network.course[max(percents)], network.results)
        ]
        for network, percents in early_ones
        if percents
    ]
    if not typed:
        return Verdict(NOT_RUN, f"needs snapshots=[…] at {early} % or before")
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
    shown = measured_heads(found, "mean")
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


def measured_heads(found: Networks, key: str) -> list[Any]:
    """What `Patterns` has measured of each head of all networks."""
    patterns = [network.results["pattern"] for network in found.values()]
    return [value for pattern in patterns if pattern for value in pattern[key]]

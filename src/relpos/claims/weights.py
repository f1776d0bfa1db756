"""Rules about what trained models have learned, looked up in their weights."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from relpos.analysis.fit import fit_heads
from relpos.analysis.kernel_types import by_chance, kind
from relpos.analysis.kernels import learned_kernels
from relpos.analysis.kinds.subject import encoder_of
from relpos.analysis.patterns import pattern
from relpos.claims.effort import MOST, longer, models, plural, trials
from relpos.claims.rule import Place, Requirements, Rule, Says, Test, each_scale, options_of
from relpos.claims.verdict import FAILS, HOLDS, NOT_HERE, NOT_RUN, UNDECIDED, Verdict, joined
from relpos.pretrained.files import is_published
from relpos.results.scale import Scale, Scales
from relpos.results.statistics import ALPHA
from relpos.runs.shelf import snapshot, snapshots
from relpos.train.weights import load_model

NEAR_K = 8
"""Kernels are compared at offsets −8 … 8."""
ENOUGH = 24
"""The fewest kernels among which a kind that none has counts as missing."""
SHORT = 2
"""The largest offset that counts as a short distance."""
LEAST_TYPED = 0.1
"""If a smaller share of the kernels has a kind at the end, nothing can be said about when they took it."""


def of_weights(says: Says, seeds: int = 1, is_about_order: bool = False) -> Callable[[Callable[..., Verdict]], Rule]:
    """Makes a rule of a judge that looks at the models of one row at one scale.

    Where the weights did not come along (`relpos merge`), it says so. Published checkpoints come last.

    Args:
        seeds: the pre-trainings that it takes.
        is_about_order: whether it says nothing of a row on the bag-of-words plateau, whose positions are still random.
    """

    def made(judge: Callable[..., Verdict]) -> Rule:
        def look(test: Test, scale: Scale, **options: Any) -> Verdict | None:
            of_row = scale.folders[test.row].values()
            folders = [folder for folder in of_row if (folder / "model").is_dir() or is_published(folder)]
            if not folders:
                return Verdict(NOT_RUN, f"needs the weights of {test.row}, which are not here (relpos merge FOLDER weights=true)")
            found = judge(scale, test.row, folders, **options)
            # A published checkpoint has left the plateau long ago, and only what it can tell is said.
            if not scale.can_go_on:
                return None if found.verdict == NOT_RUN else found
            return _unless_random(found, scale, test.row) if is_about_order else found

        return Rule(look, options_of(judge), says, lambda test: Requirements(seeds), _having)

    return made


def _having(test: Test, runs: Scales) -> list[Place]:
    """The scales, then the published checkpoints, that have the row."""
    own, published = ([scale for scale in scales if test.row in scale.folders] for scales in (runs, runs.published))
    return each_scale(test, [*(own[-1:] if test.at == "largest" else own), *published])


def _unless_random(found: Verdict, scale: Scale, row: str) -> Verdict:
    """Positions of a row that is on the plateau, or of which nobody knows, are still random."""
    if found.verdict == NOT_RUN or (on_it := scale.is_on_plateau(row)) is False:
        return found
    if on_it is None:
        why = f"whether {row} has learned any order was not measured"
        return replace(found, verdict=UNDECIDED, figures=joined([why, found.figures]), p=None, takes="relpos order measure=shuffle")
    why = f"{row} is on the bag-of-words plateau, so its positions are still random"
    return replace(found, verdict=NOT_HERE, figures=joined([why, found.figures]), p=None, takes=longer(scale))


@of_weights(
    lambda test: (
        f"kernels of {test.row} are of the kinds {', '.join('/'.join(group) for group in test.options['groups'])},"
        " more than by chance"
    )
)
def kernel_kinds(
    scale: Scale,
    row: str,
    folders: Sequence[Path],
    *,
    groups: Sequence[Sequence[str]] = (),
    profiles: bool = False,
    short: bool = False,
) -> Verdict:
    """The kernels of a row are of the kinds of `relpos.analysis.kernel_types`, each group of kinds at least once.

    Holds: every group occurs, and more kernels have a kind than if their weights were shuffled (one-sided binomial test at 0.05;
    uniform kernels are not counted). Fails: a group is missing among 24 kernels or more, or fewer kernels have a kind than if their
    weights were shuffled.

    Args:
        groups: lists of kinds; at least one kernel must have a kind of each list.
        profiles: look at what positions add to the scores of each head of the first layer, instead of at learned kernels.
        short: at least half of the heads that are not uniform must peak at a distance of two tokens or less.
    """
    from scipy.stats import binomtest

    kernels = np.concatenate([curves(folder, profiles) for folder in folders])
    kinds = [kind(kernel) for kernel in kernels]
    counts = Counter(kinds)
    # A uniform kernel stays uniform in any order of its weights, and would only dilute the comparison with chance.
    shaped = kernels[[name != "uniform" for name in kinds]]
    n_typed = len(shaped) - counts["other"]
    chance = by_chance(shaped) if len(shaped) else 0.0
    missing = ["/".join(group) for group in groups if not any(counts[name] for name in group)]
    # Both sides, each at 0.05: fewer than by chance speaks against the claim, about as many leaves it undecided.
    more, fewer = (
        float(binomtest(n_typed, len(shaped), chance, alternative=side).pvalue) if len(shaped) else 1.0
        for side in ("greater", "less")
    )
    share = n_typed / max(1, len(shaped))
    verdict, takes = UNDECIDED, ""
    if not missing and more < ALPHA and (not short or _peak_near(shaped)):
        verdict = HOLDS
    elif (missing and len(kernels) >= ENOUGH) or fewer < ALPHA:
        verdict = FAILS
    else:
        times = ENOUGH / len(kernels) if missing else trials(share, chance, max(1, len(shaped)))
        takes = models(scale, row, ceil(times * len(folders))) if times < MOST else longer(scale)
    said = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    absent = f"; none is {', '.join(missing)}" if missing else ""
    shares = f"{share:.0%} of {len(shaped)} not uniform have a kind, {chance:.0%} in random order"
    figures = f"{len(kernels)} kernels of {plural(len(folders), 'model')}: {said}; {shares}{absent}"
    return Verdict(verdict, figures, p=min(more, fewer, 1.0), takes=takes)


def _peak_near(shaped: np.ndarray) -> bool:
    peaks = np.abs(shaped.argmax(axis=1) - shaped.shape[1] // 2)
    return bool(len(peaks) and np.mean(peaks <= SHORT) >= 0.5)


def curves(folder: Path, profiles: bool = False, share: int | None = None) -> np.ndarray:
    """(kernels, 17): what a model adds to the scores at offsets −8 … 8, one line for each layer and head.

    Args:
        folder: of a pre-training.
        profiles: for any scheme, the profiles of the first layer's heads that `relpos.analysis.patterns` computes.
        share: the snapshot at so many percent of the steps; None: the end.
    """
    if not profiles:
        return np.concatenate([kernels.numpy() for kernels in learned_kernels(load(folder, share), k=NEAR_K)])
    shown = pattern(encoder(folder, share))
    if shown is None:
        return np.empty((0, 2 * NEAR_K + 1))
    middle = shown.mean.shape[1] // 2
    return shown.mean[:, middle - NEAR_K : middle + NEAR_K + 1].numpy()


def load(folder: Path, share: int | None = None) -> Any:
    """The model of a pre-training, at its end or at a snapshot; or a published one. In float32."""
    if share is not None:
        return load_model(snapshot(folder, share)).float()
    own = folder / "model"
    return load_model(own if own.is_dir() else folder).float()


def encoder(folder: Path, share: int | None = None) -> Any:
    """The encoder of `load`, of a model with a head or without."""
    return encoder_of(load(folder, share))


_PLACES = {"largest": np.argmax, "smallest": np.argmin}


@of_weights("channels of {row} have their largest weight at −1 or +1, others their smallest, more often than by chance")
def neighbours(scale: Scale, row: str, folders: Sequence[Path]) -> Verdict:
    """Depthwise kernels have their largest weight at −1 or +1 more often than by chance (2 of 2k+1 places), and so their smallest.

    Holds: one-sided binomial tests at 0.05 show both, over all channels of all layers. Fails: they show neither.
    """
    from scipy.stats import binomtest

    counts: Counter[str] = Counter()
    by_layer: list[str] = []
    # Channels count as independent, though those of one network are not quite: the p-value may be too small.
    for folder in folders:
        for kernels in [layer.attention.conv.values.weight.detach().numpy() for layer in encoder(folder).layers]:
            middle = kernels.shape[1] // 2
            near = {name: int((np.abs(place(kernels, axis=1) - middle) == 1).sum()) for name, place in _PLACES.items()}
            counts.update(near | {"all": len(kernels)})
            by_layer.append(f"{near['largest'] / len(kernels):.0%}/{near['smallest'] / len(kernels):.0%}")
    chance, n = 2 / kernels.shape[1], counts["all"]
    p = {name: float(binomtest(counts[name], n, chance, alternative="greater").pvalue) for name in _PLACES}
    unclear = [name for name in _PLACES if p[name] >= ALPHA]
    verdict, takes = (HOLDS, UNDECIDED, FAILS)[len(unclear)], ""
    if verdict == UNDECIDED:
        times = max(trials(counts[name] / n, chance, n) for name in unclear)
        takes = models(scale, row, ceil(times * len(folders)))
    said = ", ".join(f"{name} {counts[name] / n:.0%} (p {p[name]:.1g})" for name in _PLACES)
    figures = f"weight at −1 or +1 of {n:,} channels: {said}, by chance {chance:.0%}; by layer {' '.join(by_layer)}"
    # Both halves of the claim must hold, so that the weaker one counts.
    return Verdict(verdict, figures, p=max(p.values()) if verdict == HOLDS else None, takes=takes)


@of_weights("kernels of {row} have their kinds after {early} % of the steps")
def early_kinds(scale: Scale, row: str, folders: Sequence[Path], *, early: int = 10) -> Verdict:
    """Kernels take their kinds early: after a tenth of the steps at least four fifths as many have one as at the end.

    The counts of all models together decide. Not run without a snapshot in the first tenth of the steps. Uniform kernels count as
    having no kind; if fewer than a tenth of the kernels have a kind at the end, the claim is undecided.
    """
    in_time = {folder: [share for share in snapshots(folder) if share <= early] for folder in folders}
    kept = {folder: max(shares) for folder, shares in in_time.items() if shares}
    if not kept:
        return Verdict(NOT_RUN, f"needs snapshots=[…] at {early} % or before")
    typed = [[_typed(curves(folder, share=then)) for then in (share, None)] for folder, share in kept.items()]
    # All models together: each alone has a dozen kernels.
    then, late = np.mean(typed, axis=0)
    # Four fifths of few kernels would be a matter of one or two.
    verdict = UNDECIDED if late < LEAST_TYPED else HOLDS if then >= 0.8 * late else FAILS
    figures = f"{then:.0%} of the kernels early, {late:.0%} at the end, {plural(len(kept), 'model')}"
    return Verdict(verdict, figures, takes=longer(scale))


def _typed(kernels: np.ndarray) -> float:
    """The share of kernels that have a kind."""
    return sum(kind(kernel) not in ("uniform", "other") for kernel in kernels) / len(kernels)


@of_weights("S = {kernels} is fitted to {heads} profiles like those of {row} in less than {seconds:g} s")
def fits_fast(
    scale: Scale, row: str, folders: Sequence[Path], *, kernels: int = 5, heads: int = 144, seconds: float = 20.0
) -> Verdict:
    """Fitting TISA to the profiles of trained heads is fast; a profile is what positions add to a head's scores, by offset.

    The profiles of the first layer, repeated until they are `heads`, are fitted at once, S being `kernels`: the paper's 2,160
    parameters are 144 heads with S = 5 (Wennberg & Henter 2021, Appendix C). Holds below `seconds` of CPU time, fails above. The R²
    of each fit is shown.
    """
    profiles = [pattern(encoder(folder), length=scale.meaning["length"]) for folder in folders]
    shown = [curve for profile in profiles if profile for curve in profile.mean.numpy()]
    if not shown:
        return Verdict(NOT_RUN, f"{row} has no position products")
    fit_heads(shown[:1], kernels)  # so that importing torch is not part of the time
    # Fitted are as many heads as are timed, since time is not proportional to them: they share out the random starts.
    repeated = np.resize(shown, (heads, len(shown[0])))
    began = time.process_time()
    fits = fit_heads(repeated, kernels)
    took = time.process_time() - began
    r2 = ", ".join(f"{fit.r2:.3f}" for fit in fits[: len(shown)])
    figures = f"{took:.1f} s for {heads} heads; R² of the fits {r2} ({plural(len(folders), 'model')})"
    return Verdict(HOLDS if took < seconds else FAILS, figures)

"""Rules that compare pairs of rows at one scale: each judge turns differences into evidence, and `comparison` does the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from relpos.claims.rule import Place, Rule, Says, Test, Variant, each_scale, rule
from relpos.claims.verdict import FAILS, NOT_RUN, UNDECIDED, Evidence, Verdict, all_of, below, joined, more_seeds, sided
from relpos.results.gain import Gain, gain, mean_gain, sizes
from relpos.results.scale import MEAN, Scale, Scales
from relpos.results.statistics import ALPHA, MOST, Difference, holm, seeds_needed
from relpos.results.values import GLUE

SEVERAL_SEEDS = "two pre-training seeds or more of some row of this scale"


def comparison(says: Says, bounded: bool = False, variant: Variant = None) -> Callable[[Callable[..., Evidence]], Rule]:
    """Makes a rule of a judge that looks at one difference; every contrast of the claim must pass it.

    Args:
        bounded: whether the rule has a bound in points; such a bound applies to the mean of all columns only, see `few_columns`.
        variant: the claim in nats; None: the first rows are above the second ones.
    """

    def made(judge: Callable[..., Evidence]) -> Rule:
        @wraps(judge)
        def look(test: Test, scale: Scale, **options: Any) -> Verdict | None:
            gains = [gain(scale, each, test.column, test.columns) for each in test.contrasts]
            if not any(gains):
                return None
            too_few = few_columns(test, gains) if bounded else ""
            parts = [] if too_few else [judge(each.tested, **options) for each in gains if each and each.tested]
            figures = [*figures_of(test, scale, gains), too_few]
            if parts and all_of(parts).verdict == FAILS:  # one contrast is enough for that, whatever others are missing
                return Verdict(FAILS, joined(figures), p=all_of(parts).p)
            if too_few or not all(each and each.columns for each in gains):
                return Verdict(NOT_RUN, joined(figures))
            return decided(scale, figures, [each.tested for each in gains if each], lambda _: all_of(parts))

        return rule(says, _places, variant or in_nats, by_contrast=True)(look)

    return made


def _places(test: Test, runs: Scales) -> list[Place]:
    if test.at == "each":
        return each_scale(test, runs)
    # The papers train their larger models for longer and in other batches, so these may differ between sizes.
    groups = sizes(runs.alike("size", "steps", "batch", "recipe"), test.rows[:2], test.column)
    return each_scale(test, [group[-1] for group in groups])


def in_nats(test: Test) -> Test:
    """The claim that the first rows are above the second ones."""
    return replace(test, rule=higher, options=higher.options)


def figures_of(test: Test, scale: Scale, gains: Iterable[Gain | None]) -> list[str]:
    """The gains, what is shown beside them, and which rows have no scores."""
    apart = [gain(scale, each, name) for name in test.apart for each in test.contrasts]
    beside = [gain(scale, each, test.column, test.columns) for each in test.beside]
    missing = [row for row in test.rows if not scale.values.get(row)]
    said = [each.said for each in (*gains, *apart, *beside) if each]
    return said + [f"no scores of {', '.join(missing)}"] * bool(missing)


def few_columns(test: Test, gains: Iterable[Gain | None]) -> str:
    """Why a bound in points cannot be applied; empty where it can."""
    # The spread of a mean falls with its columns: half a point of nine is another thing than half a point of two.
    wanted = len(test.columns or GLUE)
    if test.column != MEAN or all(len(each.columns) == wanted for each in gains if each):
        return ""
    return f"the bound is for the mean of {wanted} columns, and not all of them tell these rows apart here"


def decided(
    scale: Scale,
    figures: Iterable[str],
    tested: Sequence[Difference | None],
    judge: Callable[[list[Difference]], Evidence],
    needs: str = SEVERAL_SEEDS,
    against: float = 0.0,
    of_row: str = "",
) -> Verdict:
    """The verdict of a judge; if it is undecided, with the seeds that would find effects as large as these with probability 0.8.

    Args:
        scale: its pre-trainings show what more seeds cost.
        figures: what is said of the differences.
        tested: all that the judge needs; None: there are too few seeds for it.
        judge: the differences → evidence.
        needs: what would show how much pre-trainings differ, if one of them is None.
        against: the value from which the differences are to be told.
        of_row: the row of which these seeds are; empty: of all rows of the scale.
    """
    # Not decided by those that are there: what the claim says of the others could still be false.
    known = [each for each in tested if each]
    if len(known) < len(tested):
        return Verdict(UNDECIDED, joined(figures), takes=needs)
    evidence = judge(known)
    # Of the difference that needs most: the claim is decided when the last of them is.
    takes = more_seeds(scale, of_row, max((seeds_needed(each, against) for each in known), default=MOST))
    return Verdict(evidence.verdict, joined(figures), p=evidence.p, takes=takes if evidence.verdict == UNDECIDED else "")


@comparison(lambda test, bound: f"each difference above zero{f' and {bound} or more' if bound else ''}: {test.said}")
def higher(tested: Difference, *, bound: float = 0.0) -> Evidence:
    """Every first row is above its second one.

    Holds: the 95 % interval of each difference lies above zero (all must, so that no correction is due). Fails: one lies below,
    by a two-sided test at 0.05 with Holm's correction. With a `bound`, smaller differences count as none: to hold, each difference
    must be that large, too; and the claim fails if one is clearly smaller.
    """
    return sided(tested, bound)


@comparison(
    lambda test, bound, any_gain: f"no gain of {bound} or more{', nor a clear one above zero' * any_gain}: {test.said}",
    bounded=True,
    variant=lambda test: replace(test, options={"any_gain": False}),
)
def not_higher(tested: Difference, *, bound: float = 0.5, any_gain: bool = False) -> Evidence:
    """No first row is above its second one by as much as `bound`.

    Holds: the upper end of the 95 % interval lies below the bound. Fails: the lower end lies above it; with `any_gain` the claim
    fails whenever the interval lies above zero, however small the gain. A bound in points of GLUE is not
    applied to the mean of fewer columns.
    """
    if any_gain and tested.value > 0 and tested.p < ALPHA:
        return Evidence(1.0, tested.p)
    # An interval with gains on both sides of the bound says neither.
    return below(tested, bound)


# At the largest size the papers' sentence is that a row is the best, which in nats needs no restatement.
@comparison(
    "no loss of {bound} or more: {contrasts}", bounded=True, variant=lambda test: in_nats(test) if test.at == "largest" else test
)
def not_lower(tested: Difference, *, bound: float = 0.5) -> Evidence:
    """No first row is below its second one by as much as `bound`: `not_higher` the other way round."""
    return below(replace(tested, value=-tested.value), bound)


@comparison("a gain of {value} ± {bound}: {contrasts}", bounded=True)
def about(tested: Difference, *, value: float = 0.0, bound: float = 0.5) -> Evidence:
    """Every difference is positive and within `bound` of `value`, as printed.

    Holds: the 90 % interval lies inside value ± bound and above zero (one-sided tests). Fails: the 95 % interval lies outside
    value ± bound, or below zero.
    """
    low, high = max(value - bound, 0.0), value + bound
    if not low < tested.value < high:
        return Evidence(1.0, tested.p_against(low if tested.value <= low else high))
    return Evidence(tested.p_inside(low, high), 1.0)


@rule("the mean of these differences above zero, none clearly below: {contrasts}", _places, lambda test: test)
def higher_on_average(test: Test, scale: Scale, *, bound: float = 0.0) -> Verdict | None:
    """The first rows are above their second ones on average, and none is clearly below.

    Holds: the 95 % interval of the mean difference lies above zero, and no contrast's lies below, by Holm's correction. Fails: that
    of the mean or of a contrast lies below, by Holm's correction. With a `bound`, a smaller mean counts as none.
    """
    gains = [gain(scale, each, test.column, test.columns) for each in test.contrasts]
    if not any(gains):
        return None
    mean = mean_gain(scale, test.contrasts, test.column, test.columns)
    figures = figures_of(test, scale, [*gains, mean])
    if mean is None or not all(each and each.columns for each in gains):
        return Verdict(NOT_RUN, joined(figures))
    parts = [each.tested for each in gains if each and each.tested]
    if len(parts) < len(gains):
        return Verdict(UNDECIDED, joined(figures), takes=SEVERAL_SEEDS)
    # More seeds are for the mean: a part only has to be not clearly below, which few seeds show as well.
    return decided(scale, figures, [mean.tested], lambda known: mean_without_loss(known[0], parts, bound))


def mean_without_loss(mean: Difference, parts: Sequence[Difference], bound: float = 0.0) -> Evidence:
    """The evidence for a claim that a mean lies above zero and none of its parts clearly below."""
    losses = [each.p if each.value < 0 else 1.0 for each in parts]
    of_mean = sided(mean, bound)
    # Parts are corrected by Holm because one clear loss among many is enough; the mean is a single test.
    holds = of_mean.holds if min(holm(losses)) >= ALPHA else 1.0
    return Evidence(holds, all_of([of_mean, *(Evidence(1.0, loss) for loss in losses)]).fails)

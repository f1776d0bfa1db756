"""Rules that compare several scales: sizes, amounts of text, stages of training; and the gains of several S at one scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from math import log2
from statistics import fmean

import numpy as np

from relpos.claims.comparisons import decided, few_columns
from relpos.claims.rule import Judge, Place, Test, rule
from relpos.claims.verdict import NOT_RUN, UNDECIDED, Evidence, Verdict, below, joined, sided
from relpos.results.gain import digits, gains_alike, sizes
from relpos.results.scale import Scale, Scales, named
from relpos.results.statistics import ALPHA, Difference, combined, paired, paired_by_seed, welch


def _change_weights(places: Sequence[float]) -> np.ndarray:
    """The weight of each value in the change along a straight line through values at these places, from the least to the most."""
    return np.asarray(np.polyfit(places, np.eye(len(places)), 1)[0] * (max(places) - min(places)))


def _falls(word: str, amount: Callable[[Scale], int], name: Callable[[Scale], str]) -> Judge:
    """A judge of whether the gain gets smaller with an amount, which the word says, all else being equal.

    Tested is by how much a straight line through the gains over log2 of the amount falls from the least to the most, in the same
    columns. Holds: the 95 % interval lies above zero, and the fall is no less than the bound. Fails: it lies below.
    """

    def judge(test: Test, *scales: Scale, bound: float = 0.0) -> Verdict | None:
        (contrast,) = test.contrasts
        found = gains_alike([(scale, contrast) for scale in scales], test.column)
        gains = [(scale, each) for scale, each in zip(scales, found, strict=True) if each]
        if len(gains) < 2:
            return None
        said = [f"{name(scale)}: {each.said}" for scale, each in gains]
        if any(not each.columns for _, each in gains):
            return Verdict(NOT_RUN, joined(said))
        # By doublings: from 1,000 pairs to 2,000 is as far as from 100,000 to 200,000.
        doublings = [log2(amount(scale)) for scale, _ in gains]
        weights = -_change_weights(doublings)
        # Scales are not paired: a seed gives weights of another shape at another size, and other text of another amount.
        known = [(float(weight), each.tested) for weight, (_, each) in zip(weights, gains, strict=True) if each.tested]
        fall = combined(known) if len(known) == len(gains) else None
        said += [word, f"by {fall.said(digits(test.column))}"] if fall else []
        needs = "two pre-training seeds or more of both rows"
        verdict = decided(scales[-1], said, [fall], lambda known: sided(known[0], bound), needs, bound)
        return replace(verdict, takes=verdict.takes and f"{verdict.takes} at each scale")

    return judge


def _two_sizes(test: Test, runs: Scales) -> Iterator[Place]:
    """The smallest and the largest size, first after the same training, then each after its own, as the paper trained them.

    Scales of the first kind differ in size and recipe alone: equally many steps on equally many examples of the same text. If the
    larger model was also trained longer, the effect of size cannot be told from that of training, and the place says so.
    """
    equal = sizes(runs.alike("size", "recipe"), test.rows, test.column)
    own = sizes(runs.alike("size", "recipe", "steps", "batch"), test.rows, test.column)
    for group in [*equal, *(group for group in own if group not in equal)]:
        label = f"{group[0].label} and {group[-1].label}"
        yield label if group in equal else f"{label}, which differ in training, too", (group[0], group[-1])


def _amounts_of_text(test: Test, runs: Scales) -> Iterator[Place]:
    """Scales that differ in `pairs` alone."""
    for group in runs.alike("pairs"):
        limited = [scale for scale in group if scale.shared(named(test.column), *test.rows) and scale.meaning.get("pairs")]
        if limited:
            yield f"{limited[0].label} to {limited[-1].meaning['pairs']:,}", limited


shrinks = rule("{contrasts} is smaller at the larger size, after equal training", _two_sizes, lambda test: test)(
    _falls("shrinks", lambda scale: scale.magnitude, lambda scale: scale.label)
)

falls = rule("{contrasts} falls with the number of training pairs", _amounts_of_text, lambda test: test)(
    _falls("falls", lambda scale: int(scale.meaning["pairs"]), lambda scale: f"{scale.meaning['pairs']:,} pairs")
)


@rule(
    lambda test, at_s, bound: (
        f"the gain over {test.contrasts[0].second} changes by less than {bound} from S = {min(at_s)} to S = {max(at_s)}"
    ),
    variant=lambda test: test,
)
def steady(test: Test, scale: Scale, *, at_s: Sequence[int] = (1, 3, 5), bound: float = 0.5) -> Verdict | None:
    """The gains of the contrasts do not depend on S: a line through them changes by less than `bound` from the first to the last.

    Each pre-training seed gives a slope of its own, since the rows of one seed share its effect. Holds: the 90 % interval of the
    mean change lies inside ±bound (two one-sided tests at 0.05). Fails: the 95 % interval lies above or below zero. A bound in
    points of GLUE is not applied to the mean of fewer columns. `at_s` has the S of each contrast.
    """
    if not any(scale.shared(named(test.column), *each) for each in test.contrasts):
        return None
    gains = gains_alike([(scale, each) for each in test.contrasts], test.column, test.columns)
    known = [each for each in gains if each]
    said = [each.said for each in known]
    missing = "not every S was run in the same columns" if len(known) < len(gains) else few_columns(test, known)
    if missing:
        return Verdict(NOT_RUN, joined([*said, missing]))
    by_row = scale.by_seed(known[0].columns)
    rows = [by_row[row] for row, _ in test.contrasts]
    shared = sorted(set.intersection(*map(set, rows)))
    changes = [float(_change_weights(at_s) @ [scores[seed] for scores in rows]) for seed in shared]
    # One line for each seed: what a seed does to all rows alike does not change the slope.
    if (change := paired(changes)) is None:
        return Verdict(UNDECIDED, joined(said), takes="two pre-training seeds or more of every S")
    said.append(f"changes by {change.said(2)} over {change.n} {scale.units}")
    outside = change.p_inside(-bound, bound)
    evidence = Evidence(outside, change.p if outside >= ALPHA else 1.0)
    return decided(scale, said, [change], lambda _: evidence, against=bound if change.value > 0 else -bound)


def _one_and_two_stages(test: Test, runs: Scales) -> Iterator[Place]:
    """The scale with one stage and each with two that have the row, all else being equal."""
    for group in runs.alike("first"):
        having = [scale for scale in group if test.row in scale.folders]
        for one, two in permutations(having, 2):
            if "first" not in one.meaning and (first := two.meaning.get("first")):
                yield f"{one.label}; the first {first['share']:.0%} of the steps {first['batch']} at {first['length']}", (one, two)


@rule("with {row}, two stages lose less than {bound} in held-out loss at full length", _one_and_two_stages)
def two_stages(test: Test, one: Scale, two: Scale, *, bound: float = 0.02) -> Verdict:
    """Two stages lose less than `bound` in held-out loss at full length, compared with equally many steps at full length alone.

    Holds: the 95 % interval of the loss over pre-training seeds lies below `bound` for `row`. Fails: it lies above. What the
    `others` lose is shown and does not decide. With one seed of each the claim is undecided.
    """
    losses, said = (one.losses(), two.losses()), []
    lost: dict[str, Difference | None] = {}
    # The row is there, see `_one_and_two_stages`; of the others, those that both scales have.
    for row in (row for row in test.rows if all(row in of_scale for of_scale in losses)):
        in_one, in_two = (of_scale[row] for of_scale in losses)
        # Paired where seeds are shared: both trainings of a seed begin with the same weights.
        lost[row] = tested = paired_by_seed(in_two, in_one) or welch([(1.0, list(in_two.values())), (-1.0, list(in_one.values()))])
        value = fmean(in_two.values()) - fmean(in_one.values())
        said.append(f"{row} {tested.said(3)}" if tested else f"{row} {value:+.3f} (too few seeds)")
    figures, needs = f"two stages − one: {', '.join(said)}", f"two pre-training seeds or more of {test.row}"
    return decided(two, [figures], [lost[test.row]], lambda known: below(known[0], bound), needs, against=bound)

"""Rules that compare several sizes, amounts of text or stages of training, and the gains of several S."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from math import log2
from statistics import fmean

import numpy as np

from relpos.claims.comparisons import decided, few_columns
from relpos.claims.effort import to_decide
from relpos.claims.rule import SEVERAL, Place, Requirements, Test, of_column, rule
from relpos.claims.verdict import NOT_RUN, UNDECIDED, Evidence, Verdict, below, joined, sided
from relpos.results.gain import Gain, gains_alike, shared, sizes
from relpos.results.scale import MEAN, Scale, Scales
from relpos.results.statistics import ALPHA, Difference, combined, paired, welch
from relpos.results.values import GLUE


def _changed(
    test: Test, scale: Scale, gains: Sequence[Gain], said: list[str], what: str, change: Difference | None, bound: float
) -> Verdict:
    """The verdict on the `change`, by which a gain shrinks or falls: it holds if that is above zero and no less than the bound."""
    if any(not each.columns for each in gains):
        return Verdict(NOT_RUN, joined(said))
    if change is None:
        return Verdict(UNDECIDED, joined(said), takes="two pre-training seeds or more of both rows at each scale")
    digits = 1 if test.column in (MEAN, *GLUE) else 3
    figures = f"by {change.value:+.{digits}f} {change.interval(digits)}"
    evidence = sided(change, bound)
    takes = to_decide(scale, [change], bound) + " at each scale"
    return Verdict(evidence.verdict, joined([*said, what, figures]), p=evidence.p, takes=takes)


def _two_sizes(test: Test, runs: Scales) -> Iterator[Place]:
    """The smallest and the largest size, first after the same training, then each after its own, as the paper trained them.

    Scales of the first kind differ in size and recipe alone: equally many steps on equally many examples of the same text. If the
    larger model was also trained longer, the effect of size cannot be told from that of training, and the place says so.
    """
    equal = sizes(runs.alike("size", "recipe"), test.rows, test.column)
    own = sizes(runs.alike("size", "recipe", "steps", "batch"), test.rows, test.column)
    for group in [*equal, *(group for group in own if group not in equal)]:
        label = f"{group[0].label} and {group[-1].label}"
        yield Place((group[0], group[-1]), label if group in equal else f"{label}, which differ in training, too")


def _equal_training(test: Test) -> Requirements:
    """All sizes trained as long as Chang et al. (2021) trained their smaller models; the sizes' own recipes differ in this."""
    return replace(of_column(test), overrides=("pretrain.steps=125000", "pretrain.batch=128"))


@rule("{contrasts} is smaller at the larger size, after equal training", _equal_training, _two_sizes, lambda test: test)
def shrinks(test: Test, smaller: Scale, larger: Scale, *, bound: float = 0.0) -> Verdict | None:
    """The gain is smaller at the larger of two sizes, after the same training and in the same columns.

    Holds: the 95 % interval of gain(smallest) − gain(largest) lies above zero. Fails: it lies below.
    """
    (contrast,) = test.contrasts
    gains = [each for each in gains_alike([(smaller, contrast), (larger, contrast)], test.column) if each]
    if len(gains) < 2:
        return None
    small, large = (each.tested for each in gains)
    # Not paired: a seed gives weights of another shape at another size, so that equal seeds have little in common.
    change = combined([(1.0, small), (-1.0, large)]) if small and large else None
    said = [f"{scale.label}: {each.said}" for scale, each in zip((smaller, larger), gains, strict=True)]
    return _changed(test, larger, gains, said, "shrinks", change, bound)


def _numbers_of_pairs(test: Test, runs: Scales) -> Iterator[Place]:
    """Scales that differ in `pairs` alone."""
    for group in runs.alike("pairs"):
        limited = [scale for scale in group if shared(scale, test.rows, test.column) and scale.meaning.get("pairs")]
        if limited:
            yield Place(tuple(limited), f"{limited[0].label} to {limited[-1].meaning['pairs']:,}")


@rule("{contrasts} falls with the number of training pairs", of_column, _numbers_of_pairs, lambda test: test)
def falls(test: Test, *scales: Scale, bound: float = 0.0) -> Verdict | None:
    """The gain falls with the number of training pairs, all else being equal.

    Tested is by how much a straight line through the gains over log2(pairs) falls from the fewest pairs to the most, in the same
    columns. Holds: the 95 % interval lies above zero. Fails: it lies below.
    """
    (contrast,) = test.contrasts
    gains = gains_alike([(scale, contrast) for scale in scales], test.column)
    by_pairs = {scale.meaning["pairs"]: each for scale, each in zip(scales, gains, strict=True) if each}
    if len(by_pairs) < 2:
        return None
    # By doublings: from 1,000 pairs to 2,000 is as far as from 100,000 to 200,000.
    doublings = [log2(pairs) for pairs in by_pairs]
    weights = _slope_weights(doublings) * (min(doublings) - max(doublings))
    known = [(float(weight), each.tested) for weight, each in zip(weights, by_pairs.values(), strict=True) if each.tested]
    change = combined(known) if len(known) == len(by_pairs) else None
    said = [f"{pairs:,} pairs: {each.said}" for pairs, each in by_pairs.items()]
    return _changed(test, scales[-1], list(by_pairs.values()), said, "falls", change, bound)


def _slope_weights(places: Sequence[float]) -> np.ndarray:
    """The weight of each value in the slope of a straight line through values at these places."""
    centred = np.asarray(places) - np.mean(places)
    return np.asarray(centred / (centred**2).sum())


def _steady_says(test: Test) -> str:
    at_s, base = test.options["at_s"], test.contrasts[0].second
    return f"the gain over {base} changes by less than {test.options['bound']} from S = {min(at_s)} to S = {max(at_s)}"


@rule(_steady_says, partial(of_column, every=True), variant=lambda test: test)
def steady(test: Test, scale: Scale, *, at_s: Sequence[int] = (1, 3, 5), bound: float = 0.5) -> Verdict | None:
    """The gains of the contrasts do not depend on S: a line through them changes by less than `bound` from the first to the last.

    Each pre-training seed gives a slope of its own, since the rows of one seed share its effect. Holds: the 90 % interval of the
    mean change lies inside ±bound (two one-sided tests at 0.05). Fails: the 95 % interval lies above or below zero. A bound in
    points of GLUE is not applied to the mean of fewer columns. `at_s` has the S of each contrast.
    """
    if not any(shared(scale, each, test.column) for each in test.contrasts):
        return None
    gains = gains_alike([(scale, each) for each in test.contrasts], test.column, test.columns)
    known = [each for each in gains if each]
    said = [each.said for each in known]
    if len(known) < len(gains):
        return Verdict(NOT_RUN, joined([*said, "not every S was run in the same columns"]))
    if few := few_columns(test, known):
        return Verdict(NOT_RUN, joined([*said, few]))
    by_row = scale.by_seed(known[0].columns)
    of_rows = [by_row[row] for row, _ in test.contrasts]
    weights = _slope_weights(at_s) * (max(at_s) - min(at_s))
    changes = [
        sum(weight * scores[seed] for weight, scores in zip(weights, of_rows, strict=True))
        for seed in sorted(set.intersection(*map(set, of_rows)))
    ]
    # One line for each seed: what a seed does to all rows alike does not change the slope.
    tested = paired(changes, [0.0] * len(changes))
    if tested is None:
        return Verdict(UNDECIDED, joined(said), takes="two pre-training seeds or more of every S")
    said.append(f"changes by {tested.value:+.2f} {tested.interval(2)} over {tested.n} {scale.units}")
    return decided(scale, said, [tested], lambda _: flat(tested, bound), against=bound if tested.value > 0 else -bound)


def flat(tested: Difference, bound: float) -> Evidence:
    """The evidence that a change lies inside ±bound."""
    # Halved: two one-sided tests at 0.05, see `comparisons.about`.
    against = max(tested.p_against(bound), tested.p_against(-bound)) / 2
    inside = against if abs(tested.value) < bound else 1.0
    return Evidence(inside, tested.p if inside >= ALPHA else 1.0)


def _one_and_two_stages(test: Test, runs: Scales) -> Iterator[Place]:
    """The scale with one stage and each with two that have the row, all else being equal."""
    for group in runs.alike("first"):
        having = [scale for scale in group if test.row in scale.folders]
        for one, two in permutations(having, 2):
            if "first" not in one.meaning and (first := two.meaning.get("first")):
                label = f"{one.label}; the first {first['share']:.0%} of the steps {first['batch']} at {first['length']}"
                yield Place((one, two), label)


@rule(
    "with {row}, two stages lose less than {bound} in held-out loss at full length",
    lambda test: Requirements(SEVERAL),
    _one_and_two_stages,
)
def two_stages(test: Test, one: Scale, two: Scale, *, bound: float = 0.02) -> Verdict:
    """Two stages lose less than `bound` in held-out loss at full length, compared with equally many steps at full length alone.

    Holds: the 95 % interval of the loss over pre-training seeds lies below `bound` for `row`. Fails: it lies above. What the
    `others` lose is shown and does not decide. With one seed of each the claim is undecided.
    """
    # The row is there, see `_one_and_two_stages`; of the others, those that both scales have.
    losses = {row: (one.losses(row), two.losses(row)) for row in test.rows if row in one.folders and row in two.folders}
    lost = {row: _lost(*both) for row, both in losses.items()}
    said = [f"{row} {tested.value:+.3f} {tested.interval(3)}" for row, tested in lost.items() if tested]
    alone = {row: fmean(in_two.values()) - fmean(in_one.values()) for row, (in_one, in_two) in losses.items() if not lost[row]}
    said += [f"{row} {difference:+.3f} (too few seeds)" for row, difference in alone.items()]
    figures = f"two stages − one: {', '.join(said)}"
    needs = f"two pre-training seeds or more of {test.row}"
    return decided(two, [figures], [lost[test.row]], lambda known: below(known[0], bound), needs, against=bound)


def _lost(in_one: dict[int, float], in_two: dict[int, float]) -> Difference | None:
    # Paired where seeds are shared: both trainings of a seed begin with the same weights.
    both = [seed for seed in in_two if seed in in_one]
    if len(both) >= 2:
        return paired([in_two[seed] for seed in both], [in_one[seed] for seed in both])
    return welch(list(in_two.values()), list(in_one.values()))

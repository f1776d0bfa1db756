"""Rules that look at scores column by column: of one pair of rows, of the best of several, or beside published scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from relpos.claims.comparisons import SEVERAL_SEEDS, decided, in_nats, mean_without_loss
from relpos.claims.rule import Test, rule, with_scores
from relpos.claims.verdict import NOT_RUN, UNDECIDED, Evidence, Verdict, all_of, joined, sided
from relpos.results.contrast import difference
from relpos.results.gain import gain
from relpos.results.scale import MEAN, Scale, Seed, by_pretraining, named, seeds
from relpos.results.statistics import ALPHA, SEED, Difference, combined, of_errors, paired
from relpos.results.values import Halves, best_on_halves, halves

DRAWS = 20_000


def _over_columns(test: Test, scale: Scale, judge: Callable[[Difference, Sequence[Difference]], tuple[Evidence, str]]) -> Verdict:
    """Asks a judge what the mean of the columns and the columns themselves say, of those that tell the rows apart."""
    (pair,) = test.contrasts
    names = scale.telling(named(MEAN, test.columns), *test.rows)
    mean = gain(scale, pair, only=test.columns)
    if not names or mean is None:
        return Verdict(NOT_RUN, f"{pair.first} and {pair.second}: at the constant answer in every column")
    # Each column alone, since the mean may hide that one of them fell.
    gains = [each for column in names if (each := gain(scale, pair, column))]
    tested = [each.tested for each in gains if each.tested]
    up, down = (sum(each.p < ALPHA and sign * each.value > 0 for each in tested) for sign in (1, -1))
    figures = [f"{pair} above zero in {sum(each.value > 0 for each in gains)} of {len(gains)} columns"]
    if mean.tested is None or len(tested) < len(gains):
        return Verdict(UNDECIDED, joined([*figures, mean.said]), takes=SEVERAL_SEEDS)
    evidence, said = judge(mean.tested, tested)
    figures[0] += f" ({up} clearly above, {down} clearly below{said})"
    return decided(scale, [*figures, mean.said], [mean.tested], lambda _: evidence)


@rule("{contrasts} truly above zero in {at_least} of {of} columns, in 95 % of what the errors allow", with_scores, in_nats)
def signs(test: Test, scale: Scale, *, at_least: int = 1, of: int = 9) -> Verdict:
    """The first row is above the second in `at_least` of `of` columns.

    If only some columns were run, the same share of them is asked for. The count is simulated: each column's true difference is
    drawn from the t-distribution that its pooled error gives. Holds: 95 % of the draws have so many columns above zero. Fails: 5 %
    or fewer. To ask for an interval above zero in each column would ask much more than a count does. Columns in which neither row
    is better than the constant answer tell nothing and are left out.
    """

    def judge(mean: Difference, columns: Sequence[Difference]) -> tuple[Evidence, str]:
        # Rounded up: of four columns, `5 of 9` asks for three.
        needed = -(-at_least * len(columns) // of)
        chance = np.random.default_rng(SEED)
        drawn = [each.value + each.error * chance.standard_t(each.freedom, DRAWS) for each in columns]
        # Posterior draws, not a test for each column: nine intervals above zero would ask for far more than a count of signs.
        so_many = float(np.mean(np.sum([differences > 0 for differences in drawn], axis=0) >= needed))
        return Evidence(1 - so_many, so_many), f"; {needed} or more in {so_many:.0%} of the draws"

    return _over_columns(test, scale, judge)


@rule("{contrasts} above zero in the mean of the columns, and clearly below in none", with_scores, in_nats)
def gain_without_loss(test: Test, scale: Scale) -> Verdict:
    """The first row is above the second in the mean of the columns, and clearly below in none.

    Holds: the 95 % interval of the mean gain lies above zero, and no column's lies below, by Holm's correction. Fails: that of the
    mean or of a column lies below, by Holm's correction.
    """
    return _over_columns(test, scale, lambda mean, columns: (mean_without_loss(mean, columns), ""))


@rule("{column} loses most of all columns from {first} to {second}", with_scores)
def suffers_most(test: Test, scale: Scale) -> Verdict:
    """From the first row to the second, `column` loses most, in points.

    Losses are estimated from few pre-trainings: true losses are drawn from t-distributions with the columns' pooled errors. Holds:
    `column` loses most in 95 % of the draws. Fails: in 5 % or fewer.
    """
    (pair,) = test.contrasts
    columns = scale.telling(named(MEAN, test.columns), *test.rows)
    if test.column not in columns or len(columns) < 2:
        there = ", ".join(columns) or "none"
        return Verdict(NOT_RUN, f"needs {test.column} and other columns better than the constant answer; there are {there}")
    gains = {column: gain(scale, pair, column) for column in columns}
    tested = {column: each.tested for column, each in gains.items() if each and each.tested}
    if len(tested) < len(columns):
        said = [each.said for each in gains.values() if each]
        return Verdict(UNDECIDED, joined(said), takes="two pre-training seeds or more of each column")
    chance = np.random.default_rng(SEED)
    drawn = [_drawn_losses(chance, each) for each in tested.values()]
    share = float(np.mean(np.argmax(drawn, axis=0) == columns.index(test.column)))
    ordered = sorted(tested, key=lambda column: -tested[column].value)
    losses = ", ".join(f"{column} {tested[column].value:.1f}" for column in ordered)
    figures = f"loss in points: {losses}; {test.column} first in {share:.0%} of the draws"
    # The rival as it was measured: which column comes second is not certain, so that the seeds to decide are a rough guess.
    rival = next(column for column in ordered if column != test.column)
    lead = combined([(1.0, tested[test.column]), (-1.0, tested[rival])])
    return decided(scale, [figures], [lead], lambda _: Evidence(1 - share, share))


def _drawn_losses(chance: np.random.Generator, tested: Difference) -> np.ndarray:
    """(draws,): losses drawn from an estimate."""
    # At least 0.1 between pre-trainings: a spread of nearly none is that of few seeds.
    deviation = max(0.1, tested.error * (tested.n / 2) ** 0.5)
    # The error is itself an estimate: with few pre-trainings the true one may be much larger, which χ² draws.
    deviations = deviation * np.sqrt(tested.freedom / chance.chisquare(tested.freedom, DRAWS))
    return np.asarray(tested.value + deviations * (2 / tested.n) ** 0.5 * chance.standard_normal(DRAWS))


@rule("{column} loses less than the mean of the other columns from {first} to {second}", with_scores)
def loses_less_than_others(test: Test, scale: Scale) -> Verdict:
    """From the first row to the second, `column` loses less than the mean of the other columns, in points.

    Holds: the 95 % interval of (others' loss − its loss) over pre-trainings lies above zero. Fails: below.
    """
    (pair,) = test.contrasts
    columns = scale.telling(named(MEAN, test.columns), *test.rows)
    others = [column for column in columns if column != test.column]
    if test.column not in columns or not others:
        return Verdict(NOT_RUN, f"needs {test.column} and other columns better than the constant answer")
    # Tested is the difference of the two losses within each seed and not their two intervals, which share the seeds' effects.
    gains = [gain(scale, pair, test.column), gain(scale, pair, only=others)]
    in_column, in_others = scale.by_seed([test.column]), scale.by_seed(others)
    ahead = {
        row: {seed: score - in_others[row][seed] for seed, score in scores.items() if seed in in_others[row]}
        for row, scores in in_column.items()
        if row in in_others
    }
    tested = difference(ahead, pair.second, pair.first)
    figures = [each.said for each in gains if each]
    return decided(scale, figures, [tested], lambda known: sided(known[0]), "two pre-training seeds or more")


@rule("the best of {first} on half of the dev set makes fewer errors than {second} on the other half", with_scores)
def error_reduction(test: Test, scale: Scale) -> Verdict:
    """100·(score − base)/(100 − base) of the row that is best on half of the examples, scored on the other half.

    The contrasts are the rows to choose from, each with the base. One is chosen for all columns, by the mean over columns and
    fine-tunings: on even examples to be scored on odd ones, then the other way round; the mean of both counts. Units are
    pre-trainings, each the mean over its fine-tunings. Holds: the reduction of the errors of all columns together is above zero
    (one-sided, 0.05), and that of no column clearly below, by Holm's correction. Fails: that of all columns or of one is below.
    """
    columns = {name: _answered(scale, test.rows, name) for name in scale.telling(named(MEAN, test.columns), *test.rows)}
    columns = {name: by_seed for name, by_seed in columns.items() if by_seed}
    if not columns:
        return Verdict(NOT_RUN, "needs fine-tunings that kept their answers on the dev sets")
    base = test.contrasts[0].second

    def mean(row: str, half: int) -> float:
        return fmean(fmean(rows[row][half] for rows in by_seed.values()) for by_seed in columns.values())

    chosen = best_on_halves({row: (mean(row, 0), mean(row, 1)) for row, _ in test.contrasts})

    def reductions(names: Iterable[str]) -> list[float]:
        """Of each pre-training the per cent of the base's errors that are gone, of the seeds that have all of these columns."""
        found = {}
        for seed in sorted(set.intersection(*(set(columns[name]) for name in names))):
            parts = [(columns[name][seed], row, other) for name in names for row, _, other in chosen]
            errors = sum(100 - rows[base][other] for rows, _, other in parts)
            # A ratio of sums and not a mean of ratios: a column with few errors left would rule the mean by chance.
            gone = sum(rows[row][other] - rows[base][other] for rows, row, other in parts)
            found[seed] = 100 * gone / errors if errors else 0.0
        return list(by_pretraining(found).values())

    by_name = {name: reductions([name]) for name in columns}
    said = ", ".join(f"{name} {fmean(units):+.1f} %" for name, units in by_name.items())
    tested, by_column = paired(reductions(columns)), [paired(units) for units in by_name.values()]
    if tested is not None:
        said += f"; together {tested.value:+.1f} % {tested.interval(1)} over {tested.n} {scale.units}"

    def judge(known: Sequence[Difference]) -> Evidence:
        both_sides = mean_without_loss(known[0], [each for each in by_column if each])
        # Halved: the claim has a direction, and `mean_without_loss` is two-sided.
        return Evidence(both_sides.holds / 2, both_sides.fails)

    return decided(scale, [said], [tested], judge, "two pre-training seeds or more of each row")


def _answered(scale: Scale, rows: Sequence[str], column: str) -> dict[Seed, dict[str, Halves]]:
    """Seeds → row → the scores on both halves, for the seeds for which all of these rows have kept their answers."""
    kept = {row: {seeds(one): halves(one.answers, one.metric) for one in scale.values[row][column] if one.answers} for row in rows}
    shared = [seed for seed in kept[rows[0]] if all(seed in of_row for of_row in kept.values())]
    return {seed: {row: of_row[seed] for row, of_row in kept.items()} for seed in shared}


@rule(
    lambda test, checkpoint, scores: (
        f"dev scores of {test.row} in {checkpoint}: " + ", ".join(f"{column} above {score}" for column, score in scores.items())
    )
)
def above_published(test: Test, scale: Scale, *, checkpoint: str, scores: Mapping[str, float]) -> Verdict | None:
    """Dev scores of fine-tunings of one published `checkpoint` lie above its published `scores` (column → score × 100).

    Holds: the 95 % interval of the mean over fine-tunings lies above the published score in every column (all must, so that no
    correction is due). Fails: it lies below in one, by a two-sided test at 0.05 with Holm's correction. The published scores count
    as exact, because their spread is unknown. A checkpoint is recognised by its name on the hub, or by the name of its folder.
    """
    if str(scale.meaning.get("checkpoint", "")).rpartition("/")[2] != checkpoint or not scale.values.get(test.row):
        return None
    # Fine-tunings are the units here, and stand in the place of pre-trainings, see `checkpoints`.
    measured = {column: list(scale.by_seed([column]).get(test.row, {}).values()) for column in scores}
    if missing := [column for column, values in measured.items() if not values]:
        return Verdict(NOT_RUN, f"no scores of {test.row} in {', '.join(missing)}")
    tested = {column: paired(values, scores[column]) for column, values in measured.items()}
    figures = [_beside_published(column, scores[column], values, tested[column]) for column, values in measured.items()]
    needs = "two fine-tuning seeds or more of each task"
    return decided(scale, figures, list(tested.values()), lambda known: all_of([sided(each) for each in known]), needs)


def _beside_published(column: str, published: float, values: list[float], tested: Difference | None) -> str:
    """`sst2 93.1 [92.6, 93.6] against 92.9, 2.8 % fewer errors, 5 fine-tunings`"""
    mean = sum(values) / len(values)
    interval = f" [{published + tested.low:.1f}, {published + tested.high:.1f}]" if tested else ""
    fewer = of_errors(mean - published, published) or 0.0
    errors = f"{abs(fewer):.1f} % {'fewer' if fewer >= 0 else 'more'} errors"
    return f"{column} {mean:.1f}{interval} against {published}, {errors}, {len(values)} fine-tunings"

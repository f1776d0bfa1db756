"""The rule that compares scores with numbers that others have published."""

from __future__ import annotations

from collections.abc import Mapping

from relpos.claims.comparisons import decided
from relpos.claims.requirements import SEVERAL, Requirements
from relpos.claims.rule import Test, rule
from relpos.claims.verdict import NOT_RUN, Verdict, all_of, sided
from relpos.results.scale import Scale
from relpos.results.statistics import Difference, paired


def _says(test: Test) -> str:
    published = ", ".join(f"{column} above {score}" for column, score in test.options["scores"].items())
    return f"dev scores of {test.row} in {test.options['checkpoint']}: {published}"


@rule(_says, lambda test: Requirements(SEVERAL, tuple(test.options["scores"]), len(test.options["scores"])))
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
    # Against a constant the paired test is the one-sample t-test.
    tested = {column: paired(values, [scores[column]] * len(values)) for column, values in measured.items()}
    figures = [_said(column, scores[column], values, tested[column]) for column, values in measured.items()]
    needs = "two fine-tuning seeds or more of each task"
    return decided(scale, figures, list(tested.values()), lambda known: all_of([sided(each) for each in known]), needs)


def _said(column: str, published: float, values: list[float], tested: Difference | None) -> str:
    """`sst2 93.1 [92.6, 93.6] against 92.9, 2.8 % fewer errors, 5 fine-tunings`"""
    mean = sum(values) / len(values)
    interval = f" [{published + tested.low:.1f}, {published + tested.high:.1f}]" if tested else ""
    fewer = 100 * (mean - published) / (100 - published)
    errors = f"{abs(fewer):.1f} % {'fewer' if fewer >= 0 else 'more'} errors"
    return f"{column} {mean:.1f}{interval} against {published}, {errors}, {len(values)} fine-tunings"

"""Rules that hold dev scores against published numbers, and against the scores that the GLUE server gave."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot
from pathlib import Path
from statistics import fmean, stdev

from relpos.claims.comparisons import decided
from relpos.claims.rule import SEVERAL, Requirements, Test, once, rule
from relpos.claims.verdict import NOT_RUN, Verdict, all_of, sided
from relpos.errors import RelposError, say
from relpos.results.scale import MEAN, Scale
from relpos.results.statistics import Difference, paired
from relpos.results.values import GLUE
from relpos.runs.run import runs_root
from relpos.runs.table_file import FILE, read_table
from relpos.tables.comparison import examples_error
from relpos.tables.row import Row
from relpos.tables.table import Table

MANY = 1e9
"""Degrees of freedom of an error that is known, and not estimated from the scores."""
AFTERWARDS = "the answers to the GLUE server, and its scores to `relpos record-scores`"


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


@rule(
    "dev means lie above the scores that `relpos record-scores` knows",
    lambda test: Requirements(1, GLUE, len(GLUE), afterwards=AFTERWARDS),
    once,
)
def dev_above_test(test: Test) -> Verdict | None:
    """GLUE on the dev sets (mean over runs) lies above the server's score, over the rows whose server scores were recorded.

    All rows are scored on the same test sets and so are not independent: the error is that of the examples of the dev and test
    sets, which is the same for one row as for many. Holds: the 95 % interval of the mean difference over rows lies above zero.
    Fails: it lies below.
    """
    differences: dict[str, float] = {}
    errors: list[float] = []
    for path in sorted((runs_root() / "tables").glob(f"*/{FILE}")):
        for row in _rows(path.parent):
            if row.mean.test is not None and row.mean.mean is not None:
                differences[f"{path.parent.name} {row.name}"] = row.mean.mean - row.mean.test
                # A test set is taken to be as large as its dev set.
                errors.append(2**0.5 * (examples_error(row, MEAN) or 0.0))
    if not differences:
        return None
    values = list(differences.values())
    of_rows = stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    # The largest error, not their root mean square over rows: all rows share the examples, so nothing averages out.
    tested = Difference(fmean(values), hypot(max(errors), of_rows), MANY, len(values))
    evidence = sided(tested)
    said = ", ".join(f"{name} {value:+.1f}" for name, value in differences.items())
    figures = f"dev − test: {said}; mean {tested.value:+.1f} {tested.interval(1)} by the examples of both sets"
    takes = "nothing that is trained: the examples of the dev and test sets are too few"
    return Verdict(evidence.verdict, figures, "rows with recorded scores", evidence.p, takes)


def _rows(folder: Path) -> list[Row]:
    """The rows of a table; a damaged one is named on stderr and left out."""
    try:
        return read_table(folder, Table).rows
    except RelposError as error:
        say(f"relpos: {error}")
        return []

"""What a paper gains by taking the best of several rows in each column, compared with rows that are
fixed in advance.

Wennberg & Henter (2021, Tables 3a and 3b) print Δ of the best S of each task, chosen by the same
dev scores. Such a maximum is above what the chosen S would score on other examples, even if all S
are equally good. This module measures by how much: it chooses the row on half of the dev examples
(even or odd) and compares its gain there with its gain on the other half. Scores on half of the
examples are noisier: if noise alone decides, a choice on all of them is about 0.7 times as
optimistic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from relpos.results.statistics import of_errors
from relpos.results.values import Halves, halves, mean_over
from relpos.runs.run import read_record, runs_root
from relpos.tables.comparison import baseline_of, minus
from relpos.tables.experiment import Experiment
from relpos.tables.render.cells import SideTable, by_columns, signed, title
from relpos.tables.render.view import columns_of
from relpos.tables.table import Column, Row


def by_choice(rows: Sequence[Row], experiment: Experiment) -> list[SideTable]:
    """A table for each baseline that has rows among `choices`, once all of these have scores."""
    tables = []
    for base in experiment.baseline:
        choices = [name for name in experiment.choices if baseline_of(name, experiment) == base]
        if choices and (table := side_table(rows, base, choices, experiment.statistic)):
            tables.append(table)
    return tables


def side_table(
    rows: Sequence[Row],
    base: str,
    choices: Sequence[str],
    statistic: str,
) -> SideTable | None:
    """Gains of rows over a baseline: a line for each row, then the best row of each column and how
    optimistic its choice is.

    The table has the columns in which all of these rows have scores (not nats); None without such
    columns. Δ% is computed from unrounded scores.

    Args:
        rows: all rows of the table.
        base: name of the baseline.
        choices: names of the rows among which the paper chooses.
        statistic: mean, best or median.
    """
    by_name = {row.name: row for row in rows}
    if not by_name.keys() >= {base, *choices}:
        return None
    compared = [by_name[name] for name in (base, *choices)]
    texts: dict[str, list[str]] = {}
    for column in columns_of(compared):
        of_rows = {row.name: row.columns.get(column, Column()) for row in compared}
        if not all(score.values and score.is_score for score in of_rows.values()):
            continue
        scores = {name: mean_over(score.by_seed, statistic) for name, score in of_rows.items()}
        gains = {name: scores[name] - scores[base] for name in choices}
        text_of = {}
        for name, gain in gains.items():
            percent = signed(of_errors(gain, scores[base]))
            text_of[name] = f"{signed(gain, 2)} ({percent} %)"
        best = max(gains, key=gains.__getitem__)  # the first of equal ones
        halves_of = {row.name: _halves(row, column, statistic) for row in compared}
        chosen, judged = _on_halves(halves_of, base)
        on_halves = [signed(gain, 2) for gain in (chosen, judged, minus(chosen, judged))]
        texts[title(column)] = [*text_of.values(), f"{text_of[best]} {best}", *on_halves]
    names = [
        *(f"{name} in every column" for name in choices),
        "the best of each column",
        "the best on half of the examples",
        "the same row on the other half",
        "optimism of the choice",
    ]
    return by_columns(f"Δ (Δ%) of {statistic}s to {base}, by choice of the row", names, texts)


def _halves(row: Row, column: str, statistic: str) -> Halves | None:
    """The statistic of a row's fine-tunings on even and on odd examples; None if a run kept no
    answers."""
    runs = [run for run in row.runs if run.state == "finished" and column in run.columns]
    paths = [runs_root() / run.path / "dev" / f"{column}.tsv" for run in runs]
    if not paths or not all(path.is_file() for path in paths):
        return None
    # The statistic is taken over the scores of the runs, on half of the examples as on all.
    metric = read_record(paths[0].parent.parent)["meaning"]["task"]["metric"]
    seeds = [(run.pretrain_seed or 0, run.seed or 0) for run in runs]
    of_halves = zip(*(halves(path, metric) for path in paths), strict=True)
    even, odd = (dict(zip(seeds, scores, strict=True)) for scores in of_halves)
    return mean_over(even, statistic), mean_over(odd, statistic)


def _on_halves(rows: Mapping[str, Halves | None], base: str) -> tuple[float | None, float | None]:
    """The gain of the best row on the half that chose it, and on the other half: means over both
    choices."""
    # Without the answers of one row the choice among all rows cannot be repeated.
    answered = {name: scores for name, scores in rows.items() if scores is not None}
    if len(answered) < len(rows):
        return None, None
    of_base = answered.pop(base)
    # Each half chooses once and judges once, so that every example is used for both.
    chosen = judged = 0.0
    for half in (0, 1):
        best = max(answered.values(), key=itemgetter(half))  # the first of equal ones
        gains = [of_best - of_half for of_best, of_half in zip(best, of_base, strict=True)]
        chosen += gains[half] / 2
        judged += gains[1 - half] / 2
    return chosen, judged

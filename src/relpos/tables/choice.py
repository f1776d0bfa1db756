"""What a paper gains by taking the best of several rows in each column, compared with rows that are fixed in advance.

Wennberg & Henter (2021, Tables 3a and 3b) print Δ of the best S of each task, chosen by the dev scores that Δ is made of. Such a
maximum is above what the chosen S would score on other examples, even if no S is better than another. By how much is measured here:
the row is chosen on half of the dev examples (even or odd), and its gain there is compared with its gain on the other half. Scores
on half of the examples are noisier: if noise alone decides, a choice on all of them is about 0.7 times as optimistic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from relpos.results.statistics import of_errors
from relpos.results.values import Halves, best_on_halves, halves, mean_over
from relpos.runs.run import read_record, runs_root
from relpos.tables.comparison import baseline_of, minus
from relpos.tables.experiment import Experiment
from relpos.tables.render.cells import SideTable, signed, title
from relpos.tables.render.view import columns_of
from relpos.tables.table import Column, Row


def by_choice(rows: Sequence[Row], experiment: Experiment) -> list[SideTable]:
    """A table for each baseline that has rows among `choices`, once all of these have scores."""
    baselines = {row.name: baseline_of(row.name, experiment) for row in rows if row.name in experiment.choices}
    families = {base: [name for name in experiment.choices if baselines.get(name) == base] for base in experiment.baseline}
    tables = [side_table(rows, base, choices, experiment.statistic) for base, choices in families.items() if choices]
    return [table for table in tables if table is not None]


def side_table(rows: Sequence[Row], base: str, choices: Sequence[str], statistic: str) -> SideTable | None:
    """A line for each of the rows of these names, fixed in advance, then the best of each column and how optimistic that is, of the
    columns in which all of them and `base` have scores; nats are none. None without such columns.

    Δ% is computed from unrounded scores.
    """
    by_name = {row.name: row for row in rows}
    if any(name not in by_name for name in (base, *choices)):
        return None
    wanted = [by_name[name] for name in (base, *choices)]
    of = partial(mean_over, statistic=statistic)
    texts: dict[str, list[str]] = {}
    for column in columns_of(wanted):
        of_rows = {row.name: row.columns.get(column, Column()) for row in wanted}
        if not all(score.values and score.is_score for score in of_rows.values()):
            continue
        scores = {name: of([seed for seed, _ in score.seeds], score.values) for name, score in of_rows.items()}
        gains = {name: scores[name] - scores[base] for name in choices}
        texts_of = {name: f"{signed(gain, 2)} ({signed(of_errors(gain, scores[base]))} %)" for name, gain in gains.items()}
        best = max(gains, key=gains.__getitem__)  # of equal ones the first
        seen, unseen = _on_halves({row.name: _halves(row, column, of) for row in wanted}, base)
        on_halves = [signed(gain, 2) for gain in (seen, unseen, minus(seen, unseen))]
        texts[column] = [*texts_of.values(), f"{texts_of[best]} {best}", *on_halves]
    if not texts:
        return None
    names = [*(f"{name} in every column" for name in choices), "the best of each column"]
    names += ["the best on half of the examples", "the same row on the other half", "optimism of the choice"]
    lines = [(name, list(line)) for name, *line in zip(names, *texts.values(), strict=True)]
    return SideTable(f"Δ (Δ%) of {statistic}s to {base}, by choice of the row", list(map(title, texts)), lines)


def _halves(row: Row, column: str, of: Callable[[Sequence[int | None], Sequence[float]], float]) -> Halves | None:
    """The statistic of a row's fine-tunings on even and on odd examples; None where some kept no answers."""
    runs = [run for run in row.runs if run.stage == "finetune" and run.state == "finished" and column in run.columns]
    paths = [runs_root() / run.path / "dev" / f"{column}.tsv" for run in runs]
    if not paths or not all(path.is_file() for path in paths):
        return None
    # By runs, and then summed up: the statistic of a row is taken of its runs, on half of the examples as on all.
    metric = read_record(paths[0].parent.parent)["meaning"]["task"]["metric"]
    seeds, of_runs = [run.pretrain_seed for run in runs], [halves(path, metric) for path in paths]
    return of(seeds, [even for even, _ in of_runs]), of(seeds, [odd for _, odd in of_runs])


def _on_halves(rows: Mapping[str, Halves | None], base: str) -> tuple[float | None, float | None]:
    """The gain of the best row on the half that chose it, and on the other one: means of both halves."""
    # Without the answers of one row the choice among all of them cannot be repeated.
    answered = {name: both for name, both in rows.items() if both is not None}
    if len(answered) < len(rows):
        return None, None
    of_base = answered.pop(base)
    # Each half chooses once and judges once, so that no example is used for nothing.
    gains = [[answered[row][half] - of_base[half] for half in both] for row, *both in best_on_halves(answered)]
    return sum(seen for seen, _ in gains) / 2, sum(unseen for _, unseen in gains) / 2

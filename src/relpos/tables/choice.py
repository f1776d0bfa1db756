"""What a paper gains by taking the best of several rows in each column, compared with rows that are fixed in advance.

Wennberg & Henter (2021, Tables 3a and 3b) print Δ of the best S of each task, chosen by the dev scores that Δ is made of. Such a
maximum is above what the chosen S would score on other examples, even if no S is better than another. By how much is measured here:
the row is chosen on half of the dev examples (even or odd), and its gain there is compared with its gain on the other half. Scores
on half of the examples are noisier: if noise alone decides, a choice on all of them is about 0.7 times as optimistic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from relpos.results.statistics import of_errors
from relpos.results.values import Halves, best_on_halves, halves
from relpos.runs.run import read_record, runs_root
from relpos.tables.comparison import baseline_of, minus, sum_up
from relpos.tables.experiment import Experiment
from relpos.tables.render.cells import SideTable, signed, title
from relpos.tables.render.view import columns_of
from relpos.tables.table import Column, Row


@dataclass(frozen=True)
class Choice:
    """One column: what each of the rows gains over the baseline, and what choosing among them gains.

    Args:
        base: the baseline's score × 100, not rounded.
        gains: row → score − base.
        seen: gain of the best row on the half that chose it, mean of both halves; `unseen`: its gain on the other half. None where
            the answers on the dev set were not kept.
    """

    base: float
    gains: dict[str, float]
    seen: float | None = None
    unseen: float | None = None

    @property
    def best(self) -> str:
        """The row with the largest gain, of equal ones the first."""
        return max(self.gains, key=lambda name: self.gains[name])


def by_choice(rows: Sequence[Row], experiment: Experiment) -> list[SideTable]:
    """A table for each baseline that has rows among `choices`, once all of these have scores."""
    overrides = {name: experiment.rows[name] for name in experiment.baseline}
    baselines = {row.name: baseline_of(row, overrides) for row in rows if row.name in experiment.choices}
    families = {base: [name for name in experiment.choices if baselines.get(name) == base] for base in experiment.baseline}
    chosen = [(base, choose(rows, base, choices, experiment.statistic)) for base, choices in families.items() if choices]
    return [table for base, columns in chosen if (table := side_table(columns, base, experiment.statistic))]


def choose(rows: Sequence[Row], base: str, choices: Sequence[str], statistic: str) -> dict[str, Choice]:
    """Column → choice among the rows of these names, for the columns in which all of them and `base` have scores; nats are none."""
    by_name = {row.name: row for row in rows}
    if any(name not in by_name for name in (base, *choices)):
        return {}
    wanted = [by_name[name] for name in (base, *choices)]
    of = partial(sum_up, statistic=statistic)
    result = {}
    for column in columns_of(wanted):
        known = [row.columns.get(column, Column()) for row in wanted]
        if not all(each.values and each.is_score for each in known):
            continue
        scores = {row.name: of(row.columns[column].values) for row in wanted}
        gains = {name: scores[name] - scores[base] for name in choices}
        result[column] = Choice(scores[base], gains, *_on_halves({row.name: _halves(row, column, of) for row in wanted}, base))
    return result


def side_table(choices: Mapping[str, Choice], base: str, statistic: str) -> SideTable | None:
    """A line for each row fixed in advance, then the best of each column and how optimistic that is; None without columns.

    Δ% is computed from unrounded scores.
    """
    if not choices:
        return None
    columns = list(choices.values())
    lines = [(f"{name} in every column", [_gain(choice, choice.gains[name]) for choice in columns]) for name in columns[0].gains]
    lines += [
        ("the best of each column", [f"{_gain(choice, choice.gains[choice.best])} {choice.best}" for choice in columns]),
        ("the best on half of the examples", [signed(choice.seen, 2) for choice in columns]),
        ("the same row on the other half", [signed(choice.unseen, 2) for choice in columns]),
        ("optimism of the choice", [signed(minus(choice.seen, choice.unseen), 2) for choice in columns]),
    ]
    return SideTable(f"Δ (Δ%) of {statistic}s to {base}, by choice of the row", list(map(title, choices)), lines)


def _halves(row: Row, column: str, of: Callable[[Sequence[float]], float]) -> Halves | None:
    """The statistic of a row's fine-tunings on even and on odd examples; None where some kept no answers."""
    runs = [run for run in row.runs if run.stage == "finetune" and run.state == "finished" and column in run.columns]
    paths = [runs_root() / run.path / "dev" / f"{column}.tsv" for run in runs]
    if not paths or not all(path.is_file() for path in paths):
        return None
    # By runs, and then summed up: the statistic of a row is taken of its runs, on half of the examples as on all.
    metric = read_record(paths[0].parent.parent)["meaning"]["task"]["metric"]
    of_runs = [halves(path, metric) for path in paths]
    return of([even for even, _ in of_runs]), of([odd for _, odd in of_runs])


def _on_halves(rows: Mapping[str, Halves | None], base: str) -> tuple[float | None, float | None]:
    """The gain of the best row on the half that chose it, and on the other one: means of both halves."""
    # Without the answers of one row the choice among all of them cannot be repeated.
    known = {name: both for name, both in rows.items() if both is not None}
    if len(known) < len(rows):
        return None, None
    of_base = known.pop(base)
    # Each half chooses once and judges once, so that no example is used for nothing.
    gains = [[known[row][half] - of_base[half] for half in both] for row, *both in best_on_halves(known)]
    return sum(seen for seen, _ in gains) / 2, sum(unseen for _, unseen in gains) / 2


def _gain(choice: Choice, gain: float) -> str:
    return f"{signed(gain, 2)} ({signed(of_errors(gain, choice.base))} %)"

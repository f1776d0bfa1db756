"""A table as one page: sorted by a click on a head, each number beside the paper's, a figure a
column, every run's record.

Figures are lines and dots of the page itself, in its colours and letters, at per cents of its
width. They are small panels rather than one picture: each stays readable on a telephone, where the
page sets them below one another.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from relpos.files import write_text
from relpos.measures.measure import measured_columns
from relpos.runs.table_file import RowRun
from relpos.tables.render.cells import MINUS, TableColumn, counts, number, signed, title
from relpos.tables.render.view import View


def write_html(path: Path, view: View) -> None:
    """Writes the page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("relpos.tables.render"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "number": number,
        "signed": signed,
        "states": _states,
        "counts": counts,
        "sortable": _sortable,
    }
    rows = view.table.rows
    page = environment.get_template("page.html.j2").render(
        view=view,
        table=view.table,
        shows=_shows(view),
        runs=[[_listed(run, path.absolute().parent) for run in row.runs] for row in rows],
        states=_states([run for row in rows for run in row.runs]),
        panels=[Panel.of(column) for column in view.scores],
    )
    write_text(path, page + "\n")


def _shows(view: View) -> dict[str, bool]:
    """Part of the page → whether it has content."""
    scores = [score for column in view.scores for score in column.scores]
    shows = {"runs": any(map(counts, scores))}
    for part, field in {"spread": "sem", "paper": "printed", "intervals": "interval"}.items():
        shows[part] = any(getattr(score, field) is not None for score in scores)
    return shows | {"pairs": any(column.name in measured_columns() for column in view.scores)}


def _sortable(text: str) -> float:
    """The first number of a text; 0 for a text without numbers, such as `plateau`."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", text.replace(MINUS, "-"))
    return float(numbers[0]) if numbers else 0.0


def _listed(run: RowRun, folder: Path) -> dict[str, str | None]:
    """A run as the page in this folder lists it: `title`, as in `rte seed 0/1`; `link` to its
    record, None where there is no record; `state`; and `notes`: state, error, scores and
    identity."""
    seeds = f"{run.pretrain_seed}/{run.seed}" if run.task else f"{run.seed}"
    # The page is in tables/NAME, two folders below the runs.
    root = "" if run.path.startswith("/") else "../../"
    record = f"{root}{run.path}/record.json"
    scores = ", ".join(f"{title(name)} {number(value)}" for name, value in run.columns.items())
    state = f"{run.state}: {run.error}" if run.error else run.state
    return {
        "title": f"{run.task or run.stage} seed {seeds}",
        "link": quote(record) if (folder.parents[1] / run.path / "record.json").is_file() else None,
        "state": run.state,
        "notes": " · ".join(filter(None, (state, scores, run.identity))),
    }


def _states(runs: list[RowRun]) -> str:
    """`118 finished, 2 missing`; a run that several rows share counts once."""
    counts = Counter({run.path: run.state for run in runs}.values())
    return ", ".join(f"{count} {state}" for state, count in counts.most_common())


@dataclass(frozen=True)
class Panel:
    """A figure of a column: row by row each run, the mean with its 95 % interval, the printed
    number, the constant answer.

    Args:
        column: the column.
        ticks: of the axis, which begins and ends with them.
        constant: the constant answer's score; None where there is none, or where it is so far off
            that the rows would be squeezed together.
    """

    column: TableColumn
    ticks: list[float]
    constant: float | None

    @classmethod
    def of(cls, column: TableColumn) -> Panel:
        from matplotlib.ticker import MaxNLocator

        numbers: list[float] = []
        for score in column.scores:
            beside = (*(score.interval or ()), score.mean, score.printed)
            numbers += [*score.values, *(number for number in beside if number is not None)]
        answers = [score.majority for score in column.scores if score.majority is not None]
        low, high = min(numbers, default=0.0), max(numbers, default=1.0)
        constant = None
        if answers:
            # A change of the data may have left several; that of most rows counts.
            most = max(set(answers), key=answers.count)
            if low - (high - low) / 2 < most < high:
                constant, low = most, min(low, most)
        margin = 0.0 if low < high else 0.5
        ticks = MaxNLocator(4).tick_values(low - margin, high + margin)
        return cls(column, list(ticks), constant)

    def at(self, value: float) -> str:
        """The place of a number, in per cent of the panel's width."""
        low, *_, high = self.ticks
        return f"{100 * (value - low) / (high - low):.2f}%"

"""A table as one page: sorted by a click on a head, each number beside the paper's, a figure a column, every run's record."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from relpos.files import write_text
from relpos.readers import read_text
from relpos.runs.table_file import RowRun
from relpos.tables.render import svg
from relpos.tables.render.cell import MINUS, number, signed
from relpos.tables.render.side_tables import title
from relpos.tables.render.view import View

PARTS = ("templates/page.html.j2", "templates/page.css", "templates/page.js", "svg.py", "html.py", "cell.py", "side_tables.py")
"""What makes the page what it is, beside the numbers: where one of these changes, the page is written anew."""


def write_html(path: Path, view: View) -> None:
    """Writes the page; nothing where it shows this table already: its figures need matplotlib, which is slow to load."""
    parts = {part.rpartition("/")[2]: files("relpos.tables.render").joinpath(part).read_text(encoding="utf-8") for part in PARTS}
    stamp = hashlib.sha256(json.dumps([asdict(view.table), parts], sort_keys=True).encode()).hexdigest()
    # The stamp stands in the page's head, so that the rest of a large page need not be searched.
    if path.exists() and stamp in read_text(path)[:1000]:
        return
    write_text(path, _page(view, parts, stamp))


def _shows(view: View) -> dict[str, bool]:
    """Part of the page → whether there is something to show or to hide."""
    cells = [cell for line in view.lines for cell in line.cells]
    fields = {"spread": "sem", "paper": "printed", "test": "test", "intervals": "interval"}
    parts = {part: any(getattr(cell.column, field) is not None for cell in cells) for part, field in fields.items()}
    return parts | {"runs": any(cell.counts for cell in cells)}


def _listed(run: RowRun) -> dict[str, str | None]:
    """A run as the page lists it: `title`, as in `rte seed 0/1`; `link` to its record, from the folder of the table, None where
    there is no record; `state`; and `notes`: state, error, scores and identity."""
    seeds = f"{run.pretrain_seed}/{run.seed}" if run.task else f"{run.seed}"
    # The page lies in tables/NAME, two folders below the runs.
    path = run.path if run.path.startswith("/") else f"../../{run.path}"
    scores = ", ".join(f"{title(name)} {number(value)}" for name, value in run.columns.items())
    state = f"{run.state}: {run.error}" if run.error else run.state
    return {
        "title": f"{run.task or run.stage} seed {seeds}",
        "link": None if run.state == "missing" else quote(f"{path}/record.json"),
        "state": run.state,
        "notes": " · ".join(filter(None, (state, scores, run.identity))),
    }


def _page(view: View, templates: dict[str, str], stamp: str) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters |= {"number": number, "signed": signed, "states": _states}
    environment.filters["sortable"] = lambda text: float(text.split()[0].replace(MINUS, "-"))  # the number that it begins with
    curves = {line.row.name: line.row.heldout_loss for line in view.lines if line.row.heldout_loss}
    page = environment.from_string(templates["page.html.j2"]).render(
        view=view,
        table=view.table,
        shows=_shows(view),
        runs=[[_listed(run) for run in line.row.runs] for line in view.lines],
        states=_states([run for line in view.lines for run in line.row.runs]),
        panels=_panels(view),
        curves=svg.curves("held-out loss (nats per predicted token)", curves) if curves else None,
        style=templates["page.css"],
        script=templates["page.js"],
        stamp=stamp,
    )
    return page + "\n"


def _states(runs: list[RowRun]) -> str:
    """`118 finished, 2 missing`; a run that several rows share counts once."""
    counts = Counter({run.path: run.state for run in runs}.values())
    return ", ".join(f"{count} {state}" for state, count in counts.most_common())


def _panels(view: View) -> list[tuple[str, str]]:
    """Head → figure; the mean of the columns first."""
    names = [line.row.name for line in view.lines]
    panels = []
    for head, cells in zip(view.heads, zip(*(line.cells for line in view.lines), strict=True), strict=True):
        columns = [cell.column for cell in cells]
        if any(column.mean is not None or column.printed is not None for column in columns):
            panels.append((head, svg.intervals(head, names, columns)))
    # Stable: behind the mean the columns keep their order.
    return sorted(panels, key=lambda panel: panel[0] != view.mean)

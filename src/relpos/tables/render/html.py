"""A table as one page: sorted by a click on a head, each number beside the paper's, a figure a column, every run's record."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from relpos.files import write_text
from relpos.tables.render import figure
from relpos.tables.render.side_tables import further
from relpos.tables.render.view import MINUS, NAMES, Cell, cells_of, columns_of, heads_of, leaders, number, signed

PARTS = ("templates/page.html.j2", "templates/page.css", "templates/page.js", "figure.py", "html.py")
"""What makes the page what it is, beside the numbers: where one of these changes, the page is written anew."""


def write_html(path: Path, content: dict[str, Any]) -> None:
    """Writes the page; nothing where it shows this content already: its figures need matplotlib, which is slow to load."""
    parts = {part.rpartition("/")[2]: files("relpos.tables.render").joinpath(part).read_text(encoding="utf-8") for part in PARTS}
    stamp = hashlib.sha256(json.dumps([content, parts], sort_keys=True).encode()).hexdigest()
    if path.exists() and stamp in path.read_text(encoding="utf-8")[:1000]:
        return
    write_text(path, _page(content, parts, stamp))


def _page(content: dict[str, Any], templates: dict[str, str], stamp: str) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters |= {"number": number, "signed": signed, "sortable": _sortable}
    rows = content["rows"]
    names = columns_of(rows)
    words = {
        "name": content["name"],
        "question": content["question"],
        "checks": content.get("checks", ()),
        "heads": heads_of(names),
        "rows": _rows(rows, names),
        "counts": _counts(rows),
        "panels": _panels(rows, names),
        "curves": _curves(rows),
        "further": further(rows),
        "style": templates["page.css"],
        "script": templates["page.js"],
        "stamp": stamp,
        "has": _has(rows, names),
    }
    return environment.from_string(templates["page.html.j2"]).render(words) + "\n"


def _rows(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    best, keys = leaders(rows), ["perplexity", *range(len(names)), "mean"]
    found = []
    for place, row in enumerate(rows):
        words = {key: row.get(key) for key in ("name", "parameters", "position_parameters", "perplexity")}
        words |= {"words": " ".join(row.get("words") or ()), "runs": [_run(run) for run in row.get("runs", ())]}
        words |= {"cells": cells_of(row, names), "best": {keys[column - 2] for line, column in best if line == place}}
        found.append(words | {"states": Counter(run["state"] for run in row.get("runs", ()))})
    return found


def _run(run: dict[str, Any]) -> dict[str, Any]:
    """Names of a run for its line, and where its record lies from the table's folder; None where there is no record."""
    scores = ", ".join(f"{NAMES.get(name, name)} {number(value)}" for name, value in run.get("columns", {}).items())
    path = run["path"] if run["path"].startswith("/") else f"../../{run['path']}"
    link = None if run["state"] == "missing" else quote(f"{path}/record.json")
    seeds = f"{run['pretrain_seed']}/{run['seed']}" if run.get("task") else f"{run['seed']}"
    return run | {"scores": scores, "link": link, "seeds": seeds, "title": run.get("task") or run["stage"]}


def _counts(rows: list[dict[str, Any]]) -> str:
    """`120 runs: 118 finished, 2 missing`; empty for a table that does not know its runs."""
    states = Counter({run["path"]: run["state"] for row in rows for run in row.get("runs", ())}.values())
    return f"{states.total()} runs: {', '.join(f'{count} {state}' for state, count in states.most_common())}" if states else ""


def _has(rows: list[dict[str, Any]], names: list[str]) -> dict[str, bool]:
    """What there is to show or to hide."""
    cells: list[Cell] = [cell for row in rows for cell in cells_of(row, names)]
    return {
        "spread": any(cell.sem is not None for cell in cells),
        "paper": any(cell.printed is not None for cell in cells),
        "test": any(cell.test is not None for cell in cells),
        "runs": any(cell.counts for cell in cells),
        "intervals": any(cell.low is not None for cell in cells),
    }


def _panels(rows: list[dict[str, Any]], names: list[str]) -> list[tuple[str, str]]:
    """Column → its figure; the mean of the columns first."""
    labels = [row["name"] for row in rows]
    columns = zip(*(cells_of(row, names) for row in rows), strict=True)
    shown = [(head, cells) for head, cells in zip(heads_of(names), columns, strict=True) if _drawable(cells)]
    shown.sort(key=lambda panel: panel[0] != heads_of(names)[-1])
    return [(head, figure.intervals(head, labels, cells)) for head, cells in shown]


def _sortable(text: str) -> float:
    """The number that a text begins with."""
    return float(text.split()[0].replace(MINUS, "-"))


def _drawable(cells: tuple[Cell, ...]) -> bool:
    return any(cell.mean is not None or cell.printed is not None for cell in cells)


def _curves(rows: list[dict[str, Any]]) -> str | None:
    points = {row["name"]: row["heldout_loss"] for row in rows if row.get("heldout_loss")}
    return figure.curves("held-out loss (nats per predicted token)", points) if points else None

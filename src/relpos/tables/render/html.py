"""A table as one page: sorted by a click on a head, each number beside the paper's, a figure a
column, every run's record.

Figures are SVG that takes its colours from the page: text and lines in its text colour, points in
its accents. They are small panels rather than one picture: each stays readable on a telephone,
where the page sets them below one another.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from relpos import style
from relpos.files import write_text
from relpos.measures.measure import measured_columns
from relpos.runs.table_file import RowRun
from relpos.tables.render.cells import MINUS, counts, number, signed, title
from relpos.tables.render.view import View
from relpos.tables.table import Column

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, FAINT, OURS, PAPER = "#010101", "#020202", "#030303", "#040404"
"""Stand-ins for colours in matplotlib, which `_svg` replaces by the page's own."""
WIDTH = 4.3
"""Inches of a panel: letters of 10 points are readable when it has 340 pixels."""


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
    filters = {"number": number, "signed": signed, "states": _states, "counts": counts}
    environment.filters |= filters | {"sortable": _sortable}
    rows = view.table.rows
    curves = {row.name: row.heldout_loss for row in rows if row.heldout_loss}
    names, panels = [row.name for row in rows], []
    for column in view.scores:
        panels.append((column.title, intervals(column.title, names, column.scores)))
    page = environment.get_template("page.html.j2").render(
        view=view,
        table=view.table,
        shows=_shows(view),
        runs=[[_listed(run, path.absolute().parent) for run in row.runs] for row in rows],
        states=_states([run for row in rows for run in row.runs]),
        panels=panels,
        curves=_curves("held-out loss (nats per predicted token)", curves) if curves else None,
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


def intervals(title: str, names: Sequence[str], columns: Sequence[Column]) -> str:
    """A figure with rows from top to bottom: each run, the mean with its 95 % interval, the printed
    number, the constant answer.

    The title is read aloud to people who do not see the figure.
    """

    def draw(axes: Axes) -> None:
        for place, column in enumerate(columns):
            _draw_row(axes, place, column)
        _draw_constant_answer(axes, columns)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(axis="x", color=FAINT, alpha=0.25)
        axes.tick_params(axis="y", length=0)

    return _svg(f"{title}: rows with their 95 % intervals", 0.55 + 0.24 * len(names), draw)


def _draw_row(axes: Axes, place: int, column: Column) -> None:
    if column.mean is None:
        # At the left edge of the axes, which does not depend on the numbers of other rows.
        edge = axes.get_yaxis_transform()
        text = "failed" if column.n_failed else "not run"
        axes.text(0.02, place, text, transform=edge, va="center", color=FAINT)
    else:
        if len(column.values) > 1:
            axes.plot(
                column.values,
                [place] * len(column.values),
                "|",
                color=OURS,
                alpha=0.45,
                markersize=5,
            )
        if column.interval is not None:
            axes.plot(
                column.interval,
                [place, place],
                "-",
                color=OURS,
                linewidth=2.2,
                solid_capstyle="butt",
            )
        axes.plot([column.mean], [place], "o", color=OURS, markersize=5)
    if column.printed is not None:
        (diamond,) = axes.plot(
            [column.printed],
            [place],
            "D",
            color=PAPER,
            markeredgewidth=1.4,
            markersize=5.5,
        )
        diamond.set_markerfacecolor("none")


def _draw_constant_answer(axes: Axes, columns: Sequence[Column]) -> None:
    """Draws the constant answer's score, unless it is so far off that the rows would be squeezed
    together."""
    scores = [column.majority for column in columns if column.majority is not None]
    low, high = axes.get_xlim()
    # After a change of the data there may be several constant answers; the one of most rows counts.
    if scores and low - (high - low) / 2 < (score := max(set(scores), key=scores.count)) < high:
        axes.axvline(score, color=FAINT, linestyle=":", linewidth=1.2)


def _curves(title: str, points: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """Held-out loss against step, a line per row."""

    def draw(axes: Axes) -> None:
        for place, (name, line) in enumerate(points.items()):
            axes.plot(*zip(*line, strict=True), label=name, **style.look(place, 1.6))
        axes.set_xlabel("step")
        axes.grid(color=FAINT, alpha=0.25)
        axes.legend(
            frameon=False,
            fontsize=9,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.18),
            ncols=2,
        )

    return _svg(title, 2.6 + 0.11 * len(points), draw)


def _svg(label: str, height: float, draw: Callable[[Axes], None]) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    looks: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": label,
        "font.size": 10,
        "text.parse_math": False,
    }
    # `fonttype` none keeps letters as text, `hashsalt` gives the same bytes again, `parse_math`
    # would read $ in names.
    looks |= dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"),
        INK,
    )
    style.own_settings()
    with matplotlib.rc_context(looks):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        # The background is the page's, which may be light or dark.
        axes.patch.set_visible(False)
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        text = io.StringIO()
        figure.savefig(
            text,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None},
        )
    return _inline(text.getvalue(), label)


def _inline(svg: str, label: str) -> str:
    """The `<svg>` element alone, with the page's colours and font, and no names that two figures
    could share."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    # Names without references would only make the page longer.
    used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg))
    svg = re.sub(
        r' id="([^"]+)"', lambda attribute: attribute[0] if attribute[1] in used else "", svg
    )
    for stand_in, colour in {
        INK: "currentColor",
        FAINT: "var(--faint)",
        OURS: "var(--ours)",
        PAPER: "var(--paper)",
    }.items():
        svg = svg.replace(stand_in, colour)
    # a hundredth of a point is enough; not in text, where 0.001 is a number
    svg = re.sub(r"(\d\.\d\d)\d+(?=[^<>]*>)", r"\1", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    head = f'role="img" aria-label="{escape(label)}"'
    return re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]+\")[^>]*>", lambda tag: f"<svg {tag[1]} {head}>", svg, count=1
    )

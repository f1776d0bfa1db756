"""`relpos dashboard`: the Weights & Biases workspace of a table: curves by row, bars, kernels, the table itself.

The workspace is first written as plain data (`dashboard.json` beside the table), which takes no key and no network.
wandb-workspaces builds it when it is uploaded: at once if there is a key, or later and elsewhere with
`relpos dashboard spec=FILE mode=online`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from relpos.errors import RelposError, say
from relpos.files import write_json
from relpos.measures.measure import measured_columns
from relpos.places import expanded
from relpos.readers import read_json, read_text
from relpos.runs.run import runs_root
from relpos.tables.render.side_tables import title
from relpos.tables.render.text import markdown
from relpos.tables.render.view import view_of
from relpos.tables.table import Table, written
from relpos.train.wandb_settings import Mode, set_up, wandb_mode

FILE = "dashboard.json"
SYNC = "wandb sync $RELPOS_RUNS/*/*/wandb/offline-run-*"
MAX_RUNS = 100
"""Lines that a panel draws at most; W&B does not allow more."""


def dashboard(table: str | None, spec: str | None, project: str, entity: str | None, mode: Mode) -> str:
    """`relpos dashboard`: writes the specification, and uploads it if that is wanted.

    Returns:
        the address of the workspace, or else the path of the specification.

    Raises:
        RelposError: no such table or file; or the upload failed.
    """
    if spec is not None:
        path = expanded(spec)
    elif table is None:
        raise RelposError("table=NAME or spec=FILE must be given")
    else:
        folder, rows = written(table)
        path = folder / FILE
        write_json(path, specification(rows, project, entity))
    content = read(path)
    if wandb_mode(mode) == "online":
        return upload(content)
    say(f"relpos: nothing was uploaded. With a key: {SYNC}; relpos dashboard spec={path} mode=online")
    return str(path)


def read(path: Path) -> dict[str, Any]:
    """A specification from its file.

    Raises:
        RelposError: there is none, or it is something else.
    """
    spec: dict[str, Any] = read_json(path, dict)
    for key in ("sections", "filters"):
        if key not in spec:
            raise RelposError(f"{path}: not a specification of relpos dashboard: no {key}")
    return spec


def specification(table: Table, project: str, entity: str | None) -> dict[str, Any]:
    """The workspace of a table as plain values; the keys of a panel are arguments of the wandb-workspaces class in `panel`."""
    view = view_of(table)
    by_row = {"groupby": "row", "groupby_aggfunc": "mean", "groupby_rangefunc": "stderr"}
    step = by_row | {"panel": "LinePlot", "x": "trainer/global_step"}
    bars: dict[str, Any] = by_row | {"panel": "BarPlot", "orientation": "h", "max_bars_to_show": MAX_RUNS}
    curves = {"held-out loss": ["heldout_loss"], "training loss": ["loss"]}
    sections = {
        "Curves by row": [step | {"title": title, "y": metrics} for title, metrics in curves.items()],
        "Columns by row: mean and standard error": [
            bars | {"title": title(name), "metrics": [name]}
            for name in ("perplexity", *view.columns)
            if name not in measured_columns()  # no run logs these
        ],
        "Kernels": [{"panel": "MediaBrowser", "title": "kernels", "media_keys": ["kernels"]}],
        "The table": [{"panel": "MarkdownPanel", "markdown": markdown(view)}],
    }
    return {
        "name": f"relpos {table.name}",
        "project": project,
        "entity": entity,
        "filters": {"group": table.name, "shared": shared(table)},
        "sections": [{"name": name, "panels": panels} for name, panels in sections.items()],
        "sync": SYNC,
    }


def shared(table: Table) -> list[str]:
    """Identities of the runs that another table made. W&B has them in that table's group, so the filter must name each of them."""
    paths = {run.identity: run.path for row in table.rows for run in row.runs if run.state != "missing"}
    return [identity for identity, path in paths.items() if _maker(runs_root() / path) not in (None, table.name)]


def _maker(run: Path) -> str | None:
    """The table that a run's configuration names. The file is searched as text, because there may be thousands."""
    try:
        match = re.search(r"^table: (.+)$", read_text(run / "config.yaml"), flags=re.M)
    except RelposError:
        return None
    return match[1].strip("'\"") if match else None


def build(spec: dict[str, Any], entity: str) -> Any:
    """The `wandb_workspaces.workspaces.Workspace` that a specification describes.

    Raises:
        RelposError: wandb-workspaces is not installed, or does not know a panel or a key of it.
    """
    try:
        import wandb_workspaces.reports.v2 as panels
        import wandb_workspaces.workspaces as workspaces
    except ImportError as error:
        raise RelposError("the dashboard needs wandb-workspaces: pip install wandb-workspaces") from error
    try:
        sections = [
            workspaces.Section(name=section["name"], panels=[_panel(panels, panel) for panel in section["panels"]], is_open=True)
            for section in spec["sections"]
        ]
        return workspaces.Workspace(
            entity=entity,
            project=spec["project"],
            name=spec["name"],
            sections=sections,
            settings=workspaces.WorkspaceSettings(max_runs=MAX_RUNS),
            runset_settings=workspaces.RunsetSettings(filters=_filter(spec["filters"])),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RelposError(f"the specification does not fit wandb-workspaces: {str(error).splitlines()[0]}") from error


def _panel(panels: Any, description: dict[str, Any]) -> Any:
    """The panel that these plain values describe. `groupby` is a key of the runs' configurations, `metrics` are summary metrics."""
    arguments = {key: value for key, value in description.items() if key != "panel"}
    if "groupby" in arguments:
        arguments["groupby"] = panels.Config(arguments["groupby"])
    if "metrics" in arguments:
        arguments["metrics"] = [panels.SummaryMetric(name) for name in arguments["metrics"]]
    return getattr(panels, description["panel"])(**arguments)


def _filter(filters: dict[str, Any]) -> str:
    """A filter as wandb-workspaces writes it: the runs of the group, and those that another table made."""
    group = f"Group == {filters['group']!r}"
    return f"{group} or ID in {filters['shared']}" if filters["shared"] else group


def upload(spec: dict[str, Any]) -> str:
    """Saves the workspace; returns its address.

    Raises:
        RelposError: Weights & Biases is out of reach, or refuses.
    """
    try:
        import wandb

        set_up("online")
        workspace = build(spec, str(spec["entity"] or wandb.Api().default_entity))
        return str(workspace.save().url)
    except RelposError:
        raise
    except Exception as error:  # requests, GraphQL and wandb have classes of their own
        said = str(error).strip() or type(error).__name__
        raise RelposError(f"Weights & Biases: {said.splitlines()[0]}") from error

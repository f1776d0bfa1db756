"""`relpos dashboard`: uploads the Weights & Biases workspace of a table: curves by row, bars,
kernels, the table itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from relpos.errors import RelposError, from_library
from relpos.measures.measure import measured_columns
from relpos.readers import Plain, read_text
from relpos.runs.run import runs_root
from relpos.tables.render.text import markdown
from relpos.tables.render.view import view_of
from relpos.tables.table import PLAIN, Table, written
from relpos.train.logger_settings import set_up, wandb_mode

MAX_RUNS = 100
"""Lines that a panel draws at most; W&B does not allow more."""


def dashboard(table: str, project: str, entity: str | None, mode: Literal["auto", "online"]) -> str:
    """`relpos dashboard`: uploads the workspace; returns its address.

    Raises:
        RelposError: there is no such table, or no key; or the upload failed.
    """
    _, content = written(table)
    if wandb_mode(mode) != "online":
        raise RelposError(
            "nothing was uploaded: set WANDB_API_KEY, or type mode=online if you are logged in"
        )
    return upload(content, project, entity)


def build(table: Table, project: str, entity: str) -> Any:
    """The `wandb_workspaces.workspaces.Workspace` of a table.

    Raises:
        RelposError: wandb-workspaces is not installed.
    """
    try:
        import wandb_workspaces.reports.v2 as panels
        import wandb_workspaces.workspaces as workspaces
    except ImportError as error:
        raise RelposError(
            "the dashboard needs wandb-workspaces: pip install wandb-workspaces"
        ) from error
    view = view_of(table)
    # A key of the runs' configurations.
    by_row: Plain = {
        "groupby": panels.Config("row"),
        "groupby_aggfunc": "mean",
        "groupby_rangefunc": "stderr",
    }
    curves = {"held-out loss": "heldout_loss", "training loss": "loss"}
    # No run logs what is measured of it or a mean over columns.
    logged = {plain.name for plain in PLAIN} | {
        name for row in table.rows for name in row.columns
    } - measured_columns().keys()
    bars = [column for column in view.columns if column.better and column.name in logged]
    sections: Plain = {
        "Curves by row": [
            panels.LinePlot(
                title=name,
                x="trainer/global_step",
                y=[metric],
                **by_row,
            )
            for name, metric in curves.items()
        ],
        "Columns by row: mean and standard error": [
            panels.BarPlot(
                title=column.title,
                metrics=[panels.SummaryMetric(column.name)],
                orientation="h",
                max_bars_to_show=MAX_RUNS,
                **by_row,
            )
            for column in bars
        ],
        "Kernels": [panels.MediaBrowser(title="kernels", media_keys=["kernels"])],
        "The table": [panels.MarkdownPanel(markdown=markdown(view))],
    }
    group = f"Group == {table.name!r}"
    identities = shared(table)
    return workspaces.Workspace(
        entity=entity,
        project=project,
        name=f"relpos {table.name}",
        sections=[
            workspaces.Section(name=name, panels=content, is_open=True)
            for name, content in sections.items()
        ],
        settings=workspaces.WorkspaceSettings(max_runs=MAX_RUNS),
        runset_settings=workspaces.RunsetSettings(
            filters=f"{group} or ID in {identities}" if identities else group
        ),
    )


def shared(table: Table) -> list[str]:
    """Identities of the runs that another table made. W&B has them in that table's group, so the
    filter must name each of them."""
    paths = {
        run.identity: run.path for row in table.rows for run in row.runs if run.state != "missing"
    }
    return [
        identity
        for identity, path in paths.items()
        if _maker(runs_root() / path) not in (None, table.name)
    ]


def _maker(run: Path) -> str | None:
    """The table that a run's configuration names. The file is searched as text, because there may
    be thousands."""
    try:
        match = re.search(r"^table: (.+)$", read_text(run / "config.yaml"), flags=re.M)
    except RelposError:
        return None
    return match[1].strip("'\"") if match else None


def upload(table: Table, project: str, entity: str | None) -> str:
    """Saves the workspace; returns its address.

    Raises:
        RelposError: Weights & Biases is out of reach, or refuses.
    """
    with from_library("Weights & Biases"):
        import wandb

        set_up("online")
        workspace = build(table, project, entity or str(wandb.Api().default_entity))
        return str(workspace.save().url)

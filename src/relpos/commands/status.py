"""`relpos status`: how a table stands, from its folders alone; on a terminal it is shown again until all runs are settled."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from rich.live import Live

from relpos.launch.jobs import PLAN, Job, Standing
from relpos.launch.progress import Picture, console
from relpos.ranges import Names, Positive
from relpos.runs.run import runs_root
from relpos.runs.table_file import table_folder


def status(table: str, rows: Names | None, overrides: Sequence[str], every: Positive) -> str:
    """Shows the table's runs, on a terminal again and again; returns the table's folder.

    Raises:
        RelposError: there is no such table, or an override is wrong.
    """
    name, job = _job(table, rows, overrides)
    screen, standing = console(), Standing(job)
    standing.look()
    picture = Picture(standing, name)
    try:
        if not sys.stdout.isatty():
            screen.print(picture.whole())
        else:
            with Live(console=screen, auto_refresh=False) as live:
                live.update(picture.whole(), refresh=True)
                while standing.unsettled:
                    time.sleep(every)
                    standing.look()
                    picture.news()
                    live.update(picture.whole(), refresh=True)
    except KeyboardInterrupt:
        pass
    return str(runs_root() / "tables" / name)


def _job(name: str, rows: list[str] | None, overrides: Sequence[str]) -> tuple[str, Job]:
    """The table's name, and its newest launch, or a plan if rows or overrides are named or nothing was launched."""
    folder = table_folder(name)
    # What was launched may have had overrides that this command does not know.
    if rows is None and not overrides and (folder / PLAN).is_file():
        return folder.name, Job.read(folder / PLAN)
    from relpos.tables import experiment, plan  # loads torch

    table = experiment.load(name)
    return table.name, Job(plan.runs_of(plan.plan_table(table, rows, overrides)))

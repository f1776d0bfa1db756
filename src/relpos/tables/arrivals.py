"""The rows of a table while it is made: each is printed once its pre-trainings are finished, and measured where that is quick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from relpos.measures.sample import is_toy
from relpos.runs.run import Run
from relpos.tables.order_instrument import Instrument
from relpos.tables.plan import PlannedRow
from relpos.tables.render.view import view_of
from relpos.tables.rows import rows_of
from relpos.tables.table import Row, Table

WIDTH = 18
"""Characters of a column."""


class Arrivals:
    """Prints the rows of a plan on stderr, below each other; the instrument measures their columns about order."""

    def __init__(self, plan: Sequence[PlannedRow], instrument: Instrument | None) -> None:
        self.waiting = [replace(row, tunings=[]) for row in plan if row.pretrainings]
        # One thread, as the workers have: the others are at work.
        self.instrument = replace(instrument, threads=1, snapshots=None) if instrument is not None else None
        self.width = max((len(row.name) for row in self.waiting), default=0)
        self.rows: list[Row] = []
        self.console = Console(stderr=True, highlight=False)

    def settled(self, run: Run) -> None:
        """Prints the rows whose last pre-training this is."""
        if run.stage != "pretrain":
            return
        for row in [row for row in self.waiting if any(run.identity == other.identity for other in row.pretrainings)]:
            if all(other.state == "finished" for other in row.pretrainings):
                self.waiting.remove(row)
                self._show(row)

    def _show(self, planned: PlannedRow) -> None:
        # Networks of the embedded language take seconds. Others are left until all runs are finished, and to as many processes as
        # there are workers.
        is_quick = is_toy(planned.pretrainings[0].inputs["store"].config["data"])
        self.rows += rows_of([planned], self.instrument if is_quick else None)
        view = view_of(Table("", "", self.rows))
        if len(self.rows) == 1:
            self._line(["row", *view.all_heads[2:]])
        self._line([planned.name, *view.lines[-1].texts[2:]])

    def _line(self, texts: Sequence[str]) -> None:
        # As `Text`: in a string rich would take brackets in the name of a row for markup.
        first, *others = texts
        cells = "".join(f"{text:>{WIDTH}}" for text in others)
        self.console.print(Text(f"  {first:<{self.width}}{cells}", style="bold"), soft_wrap=True)

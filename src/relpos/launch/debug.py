"""The debug engine: no workers; the runs of a table are executed in this very process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from relpos.errors import say
from relpos.launch.engine import Engine
from relpos.launch.jobs import Standing
from relpos.process import interruptible
from relpos.runs.execute import execute


@dataclass(frozen=True)
class Debug(Engine):
    """`engine=debug`: one run after another in this process, where a breakpoint, a debugger and a profiler reach it.

    What a run prints is shown and not kept. The first run that fails ends the command with that run's own error, so that
    `python -m pdb -c continue -m relpos.cli reproduce … engine=debug` stops where it happened.
    """

    def start(self, standing: Standing, folder: Path) -> None:
        """Executes all runs that are not settled.

        Raises:
            Exception: whatever a run raised.
        """
        for run in standing.open():
            say(f"relpos: {run.stage} {run.name}")
            with interruptible():  # for each run again: training installs its own signal handlers and does not remove them
                execute(run)

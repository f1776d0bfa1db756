"""What a run is and what became of it: identity, record, lock, and how it is executed."""

from relpos.config.compose import compose
from relpos.runs.execute import execute
from relpos.runs.plan import plan, with_task
from relpos.runs.run import Run, read_record, runs_root

__all__ = ["Run", "compose", "execute", "plan", "read_record", "runs_root", "with_task"]

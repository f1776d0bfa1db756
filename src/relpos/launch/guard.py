"""Decides whether it makes sense to restart workers."""

from __future__ import annotations

from relpos.launch.jobs import Standing

FRUITLESS = 3
"""The launch ends after this many workers in a row that ended without having started a run."""


class Guard:
    """Tells a launch whose workers cannot work (a broken environment, a full disk) from one whose workers die at work.

    The death of a worker during a run is counted in that run's record (relpos.runs.retries), and after a few deaths the run is
    given up. A worker that dies before it has started any run appears in no record: without this class it would be restarted
    for ever.

    Args:
        standing: of the launch. How many starts its records hold tells whether anything was begun.
    """

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.began: dict[str, int] = {}
        self.fruitless = 0

    def begin(self, worker: str) -> None:
        """Notes that a worker begins."""
        self.began[worker] = self.standing.starts

    def end(self, worker: str) -> bool:
        """Notes that a worker has ended early. Returns whether too many in a row have ended without starting a run.

        Call it after the records have been read again. A worker counts as useful if any run was started since it began:
        which worker started it is not known. Workers of an earlier launch always count as useful.
        """
        idle = self.standing.starts == self.began.pop(worker, -1)
        self.fruitless = self.fruitless + 1 if idle else 0
        return self.fruitless >= FRUITLESS

"""Whether starting workers again is of use."""

from __future__ import annotations

from relpos.launch.jobs import Standing

FRUITLESS = 3
"""So many workers in a row may end without having started a run."""


class Guard:
    """Tells a launch whose workers cannot work (a broken environment, a full disk) from one whose workers die at work.

    Of a worker that dies at work its run's record keeps count, see relpos.runs.retries, and after a few times nobody tries that run
    again. One that dies before it has started any run is in no record, and would be started again for ever.

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
        """Notes that a worker has ended before its time; whether too many have, one after another, without starting a run.

        The records must have been read after it ended. Where any run was started since the worker was, it has the benefit of the
        doubt; so have workers that an earlier launch started.
        """
        idle = self.standing.starts == self.began.pop(worker, -1)
        self.fruitless = self.fruitless + 1 if idle else 0
        return self.fruitless >= FRUITLESS

"""The rule for retries: how often a run is tried. It is counted from the starts in the run's
record, and from nothing else.

Every start stands in the record before the work begins, and gets its end: `finished`, `failed` or
`interrupted`. A process that is killed writes none. Its lock is released with it, so the next
process that locks the run sees a start without an end and marks it `died`.

One death says little: a node may have been rebooted. Three in a row from the same checkpoint say
that the run itself kills its process, by its memory for example, and that the next try would end
the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

from relpos.runs.run import Record

CRASHES = 3
"""After so many processes in a row that died without saving a step, the run has failed."""


@dataclass(frozen=True)
class Retries:
    """How often a launch tries one run.

    Args:
        allowed: how often the run is tried again after it has failed.
        forgiven: the starts that the record had when the launch began. They count neither as
            failures nor as crashes: whoever gives the command again wants another try.
    """

    allowed: int = 0
    forgiven: int = 0

    def are_used_up(self, record: Record) -> bool:
        """Whether the run has failed more often than allowed."""
        return record.ends[self.forgiven :].count("failed") > self.allowed

    def crashes(self, record: Record, checkpoint: str | None) -> int:
        """How many of the last tries died in a row without getting further.

        Args:
            record: in which all deaths are marked.
            checkpoint: the one that the next try would go on from. A try that began from another
                one has made progress.
        """
        count = 0
        for start in reversed(record.starts[self.forgiven :]):
            if start.get("ended") != "died" or start.get("checkpoint") != checkpoint:
                break
            count += 1
        return count


def failures(record: Record) -> int:
    """How often the run has failed, ever."""
    return record.ends.count("failed")

"""The splits of a task, encoded once: further runs of a process on the same task, such as ten seeds of it, read nothing again."""

from __future__ import annotations

from dataclasses import dataclass, field

from relpos.data.glue import Location, has_split, read
from relpos.data.glue_encoding import Encoded, Tokenizing, encode
from relpos.data.tasks import Task


@dataclass
class Splits:
    """Reads and encodes each split when it is first asked for, and keeps it.

    Args:
        length: tokens that a row is cut to.
    """

    location: Location
    task: Task
    tokenizer: Tokenizing
    length: int
    _encoded: dict[str, Encoded] = field(default_factory=dict)

    def __getitem__(self, split: str) -> Encoded:
        """The rows of `train`, or of a value of `task.dev` or `task.test`.

        Raises:
            RelposError: its file is missing or has a mistake.
        """
        if split not in self._encoded:
            self._encoded[split] = encode(read(self.location, self.task, split), self.tokenizer, self.length)
        return self._encoded[split]

    def __contains__(self, split: str) -> bool:
        """Whether there is such a file."""
        return has_split(self.location, self.task, split)


_last: tuple[str, Splits] | None = None


def kept(content: str, made: Splits) -> Splits:
    """The splits of the previous call where `content` is the same, with all that they have read; otherwise `made`.

    Args:
        content: says what the rows and their encoding depend on.
    """
    global _last
    # One and no more: encoded rows are large, and runs of one task come one after another.
    if _last is None or _last[0] != content:
        _last = content, made
    return _last[1]

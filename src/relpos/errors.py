"""Errors for the user: one line, with the word at fault and the nearest right one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RelposError(ValueError):
    """What the user can mend (a wrong word, a full disk); not a bug. The message is one line; the command line exits with 1."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A tail for an error message: the close matches of `word` among `known`, or all of `known` where none is close."""
    names = sorted(set(known))
    close = get_close_matches(word, names, n=3, cutoff=0.6)
    if close:
        return f" Did you mean {' or '.join(repr(name) for name in close)}?"
    return f" Known: {', '.join(names)}." if names else ""

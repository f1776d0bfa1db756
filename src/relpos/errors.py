"""Errors for the user: one line, with the word at fault and the nearest right one."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from textwrap import shorten

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal takes for commands, and those that turn the direction of text; but for
tabs and ends of lines."""


def printable(text: object) -> str:
    """Text, which may be a stranger's, as a terminal can show it: control characters are spelled
    out."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text))


def say(text: object, end: str = "\n") -> None:
    """Prints text on stderr, `printable`: names of files and runs, too, may be a stranger's."""
    print(printable(text), end=end, file=sys.stderr, flush=True)


def plural(number: int, noun: str) -> str:
    """A number of things in words.

    >>> plural(1, "model"), plural(2000, "model")
    ('1 model', '2,000 models')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


class RelposError(ValueError):
    """A mistake that the user can mend (a wrong word, a full disk), and no bug. Its message is one
    line; the command line exits with 1."""

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


def one_line(error: BaseException) -> str:
    """An error's message in one line of 300 characters or fewer; the name of its class where there
    is no message."""
    return shorten(str(error), 300, placeholder=" …") or type(error).__name__


def with_class(error: BaseException) -> str:
    """The class of an error and the first line of its message, for errors that may be of any
    kind."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


@contextmanager
def from_library(place: str) -> Iterator[None]:
    """What a library, the hub or a broken file raises in here, of many unrelated types and often
    long, becomes one line.

    Raises:
        RelposError: begins with `place`; or is one of ours.
    """
    try:
        yield
    except RelposError:
        raise
    except Exception as error:
        raise RelposError(f"{place}: {one_line(error)}") from error


NOT_UTF8 = "not UTF-8: iconv -f LATIN1 -t UTF-8 OLD > NEW makes it so, where OLD is Latin-1"


def nearest(word: str, choices: Iterable[str]) -> str:
    """The end of an error message: the choices that are close to `word`, or all choices where none
    is close."""
    names = sorted(set(choices))
    close = get_close_matches(word, names)
    if close:
        return f" Did you mean {' or '.join(repr(name) for name in close)}?"
    if names:
        return f" Known: {', '.join(names)}."
    return ""


def refuse_unknown(fault: str, name: object, choices: Collection[object]) -> None:
    """Refuses a name that is not among the choices.

    Raises:
        RelposError: begins with `fault`, such as `unknown row`; ends with the nearest right names.
    """
    if name not in choices:
        raise RelposError(f"{fault} {name!r}.{nearest(str(name), map(str, choices))}")

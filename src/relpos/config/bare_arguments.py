"""Arguments that are typed without a key, as the text of `relpos fill "the cat [MASK]" run=FOLDER`."""

from __future__ import annotations

import re
from collections.abc import Sequence

KEYED = re.compile(r"[+~]{0,2}[\w./@-]+=|~")
"""How an argument with a key begins. `a = b` does not begin so, and is a text."""
BARE = {"fill": "text", "score": "text", "compare": "runs", "merge": "from"}
"""Command → the key whose list such arguments form."""
OPTION = {"analyze": "kind", "figures": "paper"}
"""Command → the key or group of its one such argument."""


def with_bare_arguments(command: str, arguments: Sequence[str]) -> list[str]:
    """The arguments as Hydra wants them: all that have no key are gathered under the key that the command has for them.

    >>> with_bare_arguments("fill", ["it's [MASK]", "top=3"])
    ['top=3', "text=['it\\\\'s [MASK]']"]
    >>> with_bare_arguments("analyze", ["toeplitz", "run=FOLDER"])
    ['kind=toeplitz', 'run=FOLDER']
    """
    if command in OPTION:
        return [
            f"{OPTION[command]}={argument}" if _is_bare(argument, arguments[place - 1] if place else "") else argument
            for place, argument in enumerate(arguments)
        ]
    if command not in BARE:
        return list(arguments)
    bare = [place for place, argument in enumerate(arguments) if _is_bare(argument, arguments[place - 1] if place else "")]
    if not bare:
        return list(arguments)
    rest = [argument for place, argument in enumerate(arguments) if place not in bare]
    return [*rest, f"{BARE[command]}=[{','.join(_quoted(arguments[place]) for place in bare)}]"]


def _is_bare(argument: str, before: str) -> bool:
    """Whether an argument is neither a flag, nor the value of one, nor has a key."""
    return not argument.startswith("-") and not before.startswith("-") and not KEYED.match(argument)


def _quoted(text: str) -> str:
    """Text that Hydra and OmegaConf leave as it is: quotes, backslashes before them, and `${` are escaped."""
    text = re.sub(r"(?<!\\)\\*(?=\$\{)", lambda match: match[0] * 2 + "\\", text)
    text = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text)
    return f"'{text}'"

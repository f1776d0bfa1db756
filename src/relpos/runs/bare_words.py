"""Words that are typed without a key, as the text of `relpos fill "the cat [MASK]" run=FOLDER`."""

from __future__ import annotations

import re
from collections.abc import Sequence

KEYED = re.compile(r"[+~]{0,2}[\w./@-]+=|~")
"""How a word with a key begins. `a = b` does not begin so, and is a text."""
BARE = {"fill": "text", "score": "text", "compare": "runs", "merge": "from"}
"""Command → the key whose list such words form."""
OPTION = {"analyze": "kind", "figures": "paper"}
"""Command → the key or group of its one such word."""


def with_bare_words(command: str, words: Sequence[str]) -> list[str]:
    """The words as Hydra wants them: all that have no key are gathered under the key that the command has for them.

    >>> with_bare_words("fill", ["it's [MASK]", "top=3"])
    ['top=3', "text=['it\\\\'s [MASK]']"]
    >>> with_bare_words("analyze", ["toeplitz", "run=FOLDER"])
    ['kind=toeplitz', 'run=FOLDER']
    """
    if command in OPTION:
        return [
            f"{OPTION[command]}={word}" if _is_bare(word, words[place - 1] if place else "") else word
            for place, word in enumerate(words)
        ]
    if command not in BARE:
        return list(words)
    bare = [place for place, word in enumerate(words) if _is_bare(word, words[place - 1] if place else "")]
    if not bare:
        return list(words)
    rest = [word for place, word in enumerate(words) if place not in bare]
    return [*rest, f"{BARE[command]}=[{','.join(_quoted(words[place]) for place in bare)}]"]


def _is_bare(word: str, before: str) -> bool:
    """Whether a word is neither a flag, nor the value of one, nor has a key."""
    return not word.startswith("-") and not before.startswith("-") and not KEYED.match(word)


def _quoted(text: str) -> str:
    """Text that Hydra and OmegaConf leave as it is: quotes, backslashes before them, and `${` are escaped."""
    text = re.sub(r"(?<!\\)\\*(?=\$\{)", lambda match: match[0] * 2 + "\\", text)
    text = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text)
    return f"'{text}'"

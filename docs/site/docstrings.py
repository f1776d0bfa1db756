"""Our docstrings as the reference reads them: examples become code, wherever they stand."""

from __future__ import annotations

import re
from typing import Any

import griffe

HEAD = re.compile(r"^Example:$", re.MULTILINE)
BARE = re.compile(r"(?:\A|\n\n)((?:>>> .*)(?:\n.+)*)")
LIST = re.compile(r"\[(\w+)\]\((?!https?:)[^)]*\)")


class Examples(griffe.Extension):
    """Runs over each docstring once it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            text = HEAD.sub("Examples:", obj.docstring.value)
            text = BARE.sub(
                lambda match: "\n\nExamples:\n" + re.sub("^", "    ", match[1], flags=re.MULTILINE),
                text,
            )
            # a link beside the source leads nowhere here
            obj.docstring.value = LIST.sub(r"`\1`", text).strip()

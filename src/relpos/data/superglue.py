"""Tasks of SuperGLUE (Wang et al. 2019), read from its own JSON lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from relpos.data.table import Fields, inside
from relpos.data.tasks import Task
from relpos.errors import RelposError, plural

MARKUP = re.compile(r"<b>Sent \d+: </b>|<br>|</?b>")
"""Of the passages of MultiRC, which some releases have as HTML."""


class BoolQ(Task):
    """Columns `question`, `passage` and `label`, as they stand."""

    suffix: ClassVar[str] = ".jsonl"


class MultiRC(Task):
    """A row for each answer: `passage`, `answer` (its question and the answer), `label`, and `question`, by which answers belong
    together."""

    suffix: ClassVar[str] = ".jsonl"
    group: ClassVar[str | None] = "question"

    def rows_of(self, fields: Fields, where: str) -> Iterator[Fields]:
        """Raises: RelposError naming what is missing."""
        passage = inside(fields, "passage", dict, where)
        text = MARKUP.sub(" ", inside(passage, "text", str, where))
        for number, question in enumerate(inside(passage, "questions", list, where), 1):
            place = f"{where}, question {number}"
            asked = inside(question, "question", str, place)
            for answer in inside(question, "answers", list, place):
                row = {"passage": text, "answer": f"{asked} {inside(answer, 'text', str, place)}", "question": place}
                yield row | ({"label": answer["label"]} if "label" in answer else {})


class Wsc(Task):
    """`text` with its two spans marked, `* noun *` and `# pronoun #` (after Raffel et al. 2020), and `label`."""

    suffix: ClassVar[str] = ".jsonl"

    def rows_of(self, fields: Fields, where: str) -> Iterator[Fields]:
        """Raises: RelposError: something is missing, or a span begins behind the text."""
        words, target = inside(fields, "text", str, where).split(), inside(fields, "target", dict, where)
        marks = []
        for name, mark in (("span1", "*"), ("span2", "#")):
            start, text = inside(target, f"{name}_index", int, where), inside(target, f"{name}_text", str, where)
            if not 0 <= start < len(words):
                raise RelposError(f"{where}: {name}_index={str(start)[:20]}: the text has {plural(len(words), 'word')}")
            end = start + len(text.split())
            # In the order of the text: at one place closing marks stand first, and of nested spans the inner one closes first.
            marks += [(start, 1, -end, mark), (end, 0, -start, mark)]
        for place, _, _, mark in sorted(marks, reverse=True):  # from right to left, so that the places of the others stay right
            words.insert(place, mark)
        yield fields | {"text": " ".join(words)}

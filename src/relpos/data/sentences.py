"""Paragraphs -> sentences, by sentencex (English rules, in Rust).

Its version is recorded in the manifest of a store (`splitter`) and is not part of a run's identity: a newer version that cuts some
sentence elsewhere does not make a new store of a text that has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version

from relpos.data.documents import Document

PORTION = 1 << 18  # characters split at a time


def splitter() -> str:
    """Name and version of what splits."""
    return f"sentencex {version('sentencex')}"


def split(text: str) -> list[str]:
    """The sentences of paragraphs that stand between empty lines; none crosses them. Blanks at the ends are gone."""
    import sentencex

    return [sentence for part in sentencex.segment("en", text) if (sentence := part.strip())]


def portions(paragraphs: Iterable[str]) -> Iterator[str]:
    """Paragraphs gathered into texts of about PORTION characters, empty lines between them: what `split` reads."""
    taken: list[str] = []
    size = 0
    for paragraph in paragraphs:
        taken.append(paragraph)
        size += len(paragraph)
        if size >= PORTION:
            yield "\n\n".join(taken)
            taken, size = [], 0
    if size:
        yield "\n\n".join(taken)


def sentences(documents: Iterable[Document]) -> Iterator[str]:
    """All sentences of all documents."""
    for document in documents:
        for portion in portions(document.lines):
            yield from split(portion)

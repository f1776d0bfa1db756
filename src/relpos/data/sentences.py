"""Paragraphs -> sentences, by sentencex (English rules, in Rust).

Its version is recorded in the manifest of a store (`splitter`) and is not part of a run's identity: where a text has a store, a
newer version that splits some sentences differently does not make another one.
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
    """The sentences of paragraphs, which empty lines separate; no sentence crosses one. Blanks at both ends are stripped."""
    import sentencex

    return [sentence for part in sentencex.segment("en", text) if (sentence := part.strip())]


def portions(paragraphs: Iterable[str]) -> Iterator[str]:
    """Paragraphs gathered into texts of about PORTION characters, empty lines between them: what `split` reads."""
    portion: list[str] = []
    size = 0
    for paragraph in paragraphs:
        portion.append(paragraph)
        size += len(paragraph)
        if size >= PORTION:
            yield "\n\n".join(portion)
            portion, size = [], 0
    if size:
        yield "\n\n".join(portion)


def sentences(documents: Iterable[Document]) -> Iterator[str]:
    """All sentences of all documents."""
    for document in documents:
        for portion in portions(document.lines):
            yield from split(portion)

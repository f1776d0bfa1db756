"""`relpos data`: text → tokenizer and token store."""

from __future__ import annotations

from typing import Annotated

from relpos import run
from relpos.config.schema import Content, Data
from relpos.data.store import tell
from relpos.ranges import Arguments


def data(content: Annotated[Content, Arguments(Data)]) -> str:
    """Makes the store unless it is there, reads it through once and prints what it holds; returns
    the path of its folder."""
    path = run(content).path
    tell(path)
    return str(path)

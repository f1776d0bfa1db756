"""`relpos data`: text → tokenizer and token store."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from relpos import run
from relpos.config.schema import Pieces
from relpos.data.store import tell
from relpos.ranges import Arguments, Width
from relpos.readers import Plain


class Data(TypedDict):
    stage: Literal["store"]
    data: Plain
    tokenizer: Pieces
    vocabulary: Width


def data(content: Annotated[Plain, Arguments(Data)]) -> str:
    """Makes the store unless it is there, reads it through once and prints what it holds; returns
    the path of its folder."""
    path = run(content).path
    tell(path)
    return str(path)

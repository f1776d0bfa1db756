"""`relpos data`: text → tokenizer and token store."""

from __future__ import annotations

from typing import Unpack

from relpos import run
from relpos.config.schema import Data
from relpos.data.store import tell


def data(**config: Unpack[Data]) -> str:
    """Makes the store unless it is there, reads it through once and prints what it holds; returns
    the path of its folder."""
    path = run(config).path
    tell(path)
    return str(path)

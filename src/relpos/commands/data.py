"""`relpos data`: text → tokenizer and token store."""

from __future__ import annotations

from typing import Unpack

from relpos import run
from relpos.config.schema import Data
from relpos.data.store import Store


def data(**config: Unpack[Data]) -> str:
    """Makes the store unless it is there, and reads it through once; returns the path of its folder."""
    path = run(config).path
    # A file that was damaged since it was written is found here, and not in the middle of a training.
    Store(path).verify()
    return str(path)

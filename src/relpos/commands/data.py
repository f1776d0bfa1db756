"""`relpos data`: text → tokenizer and token store."""

from __future__ import annotations

from omegaconf import DictConfig

from relpos import run
from relpos.data.store import Store


def data(cfg: DictConfig) -> str:
    """Makes the store unless it is there, and reads it through once; returns the path of its folder."""
    path = run(cfg).path
    Store(path).verify()
    return str(path)

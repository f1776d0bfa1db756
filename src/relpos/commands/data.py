"""`relpos data`: text → tokenizer and token store."""

from __future__ import annotations

from omegaconf import DictConfig

from relpos import run
from relpos.data.store import Store


def data(cfg: DictConfig) -> str:
    """Finds or makes the store and reads it through once; the path of its folder."""
    path = run(cfg).path
    Store(path).verify()
    return str(path)

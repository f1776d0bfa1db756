"""`relpos finetune`: one GLUE task on top of a pre-training."""

from __future__ import annotations

from omegaconf import DictConfig

from relpos import run


def finetune(cfg: DictConfig) -> str:
    """Finds or makes the run and what it starts from; the path of its folder."""
    return str(run(cfg).path)

"""`relpos pretrain`: masked language modelling of one encoder."""

from __future__ import annotations

from omegaconf import DictConfig

from relpos import run


def pretrain(cfg: DictConfig) -> str:
    """Executes the run unless it is finished; returns the path of its folder."""
    return str(run(cfg).path)

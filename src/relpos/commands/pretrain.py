"""`relpos pretrain`: masked language modelling of one encoder."""

from __future__ import annotations

from typing import Unpack

from relpos import run
from relpos.config.schema import Pretrain


def pretrain(**config: Unpack[Pretrain]) -> str:
    """Executes the run unless it is finished; returns the path of its folder."""
    return str(run(config).path)

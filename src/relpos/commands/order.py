"""`relpos order`: how much order does a network know?"""

from __future__ import annotations

from omegaconf import DictConfig

from relpos.tables.order_report import write_report


def order(cfg: DictConfig) -> str:
    """Writes `order.json` and figures into a folder below `$RELPOS_RUNS/order`, which it returns.

    Raises:
        RelposError: a folder holds no masked language model, or a pair of sentences cannot be read.
    """
    return str(write_report(cfg))

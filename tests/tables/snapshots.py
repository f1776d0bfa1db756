"""Rows of a table with losses at two shares of the steps."""

from dataclasses import replace

from relpos.tables.rows import summary
from relpos.tables.table import Column, Row

JITTER = (0.01, -0.01, 0.0)
"""What the three seeds add to a row's loss."""


def rows(**losses: tuple[float, float]) -> list[Row]:
    """Rows whose held-out losses at 10 % and at the end are these."""
    return [
        Row(
            name,
            snapshots={
                share: {"heldout_loss": _column(loss, (-1) ** place)}
                for share, loss in zip((10, 100), both, strict=True)
            },
        )
        for place, (name, both) in enumerate(losses.items())
    ]


def _column(mean: float, order: int = 1) -> Column:
    return replace(
        summary({(seed, 0): mean + by for seed, by in enumerate(JITTER[::order])}),
        metric="nats",
    )

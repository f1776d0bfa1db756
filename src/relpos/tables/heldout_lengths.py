"""The held-out loss of a table's rows at lengths other than the trained one, see `relpos.measures.lengths`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from relpos.measures.lengths import losses
from relpos.tables.columns import mean_if_all
from relpos.tables.plan import PlannedRow
from relpos.tables.row import Row


def with_heldout_lengths(rows: Sequence[Row], plan: Iterable[PlannedRow], lengths: list[int]) -> list[Row]:
    """The rows, each with the mean loss over its finished pre-trainings at each length.

    The loss is None if the scheme does not serve the length, or if no pre-training is finished.
    """
    if not lengths:
        return list(rows)
    return [replace(row, heldout_by_length=_mean_losses(planned, lengths)) for row, planned in zip(rows, plan, strict=True)]


def _mean_losses(planned: PlannedRow, lengths: list[int]) -> dict[str, float | None]:
    finished = [run for run in planned.pretrainings if run.state == "finished"]
    measured = [losses(run.path, run.inputs["store"].path, lengths, run.config["precision"]) for run in finished]
    return {str(length): mean_if_all([by_length.get(length) for by_length in measured]) for length in lengths}

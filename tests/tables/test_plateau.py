"""Which rows of a table are on the bag-of-words plateau."""

from pathlib import Path

import pytest

from relpos.tables.experiment import load
from relpos.tables.plan import PlannedRow, plan_table
from relpos.tables.row import Column, Row
from relpos.tables.rows import values_of, with_plateau
from tables.small_data import finish, write_experiment


def told(rows: list[Row], plan: list[PlannedRow]) -> list[bool | None]:
    values = {planned.name: list(values_of(planned)) for planned in plan}
    return [row.on_plateau for row in with_plateau(rows, values)]


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ({"none": [0.0], "fixed": [0.4]}, {"none": True, "fixed": False}),
        ({"none": [0.0], "fixed": [0.05]}, {"none": True, "fixed": True}),
        ({}, {"none": None, "fixed": None}),
    ],
)
def test_rows_are_told_where_their_shuffle_gap_was_measured(
    gaps: dict[str, list[float]], expected: dict[str, bool | None], tmp_path: Path
) -> None:
    plan = plan_table(load(str(write_experiment(tmp_path))))
    for planned, loss in zip(plan, (6.0, 5.0), strict=True):
        finish(planned.pretrainings[0], {"heldout_loss": loss})
    columns = {name: {"shuffle_gap": Column(values=values, seeds=[(0, 0)])} for name, values in gaps.items()}
    rows = [Row(planned.name, columns=columns.get(planned.name, {})) for planned in plan]
    assert told(rows, plan) == list(expected.values())


def test_where_none_knows_order_the_gap_alone_decides(tmp_path: Path) -> None:
    plan = plan_table(load(str(write_experiment(tmp_path))))  # as under causal attention, where positions may win nothing
    for planned in plan:
        finish(planned.pretrainings[0], {"heldout_loss": 5.0})
    rows = [Row(planned.name, columns={"shuffle_gap": Column(values=[2.1], seeds=[(0, 0)])}) for planned in plan]
    assert told(rows, plan) == [False, False]

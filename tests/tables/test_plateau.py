"""Which rows of a table are on the bag-of-words plateau."""

from pathlib import Path
from typing import Any

import pytest

from relpos.results.plateau import Onset
from relpos.tables.plan import PlannedRow, plan_table
from relpos.tables.rows import constant_phase, values_of, with_plateau
from relpos.tables.table import Column, Row
from tables.small_data import finish, log, plan_of, small


def placed(plan: list[PlannedRow], gaps: dict[str, list[float]]) -> list[Row]:
    """The rows of a plan, placed by these shuffle gaps."""
    values = {planned.name: list(values_of(planned)) for planned in plan}
    columns = {
        name: {"shuffle_gap": Column(values=of_row, seeds=[(0, 0)])}
        for name, of_row in gaps.items()
    }
    rows = [Row(planned.name, columns=columns.get(planned.name, {})) for planned in plan]
    return with_plateau(rows, plan, values)


def finished(folder: Path, losses: tuple[float, ...], **changes: Any) -> list[PlannedRow]:
    """The plan of an experiment whose pre-trainings are finished with these losses."""
    plan = plan_of(folder, **changes)
    for planned, loss in zip(plan, losses, strict=True):
        finish(planned.pretrainings[0], {"heldout_loss": loss})
    return plan


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ({"none": [0.0], "fixed": [0.4]}, {"none": True, "fixed": False}),
        ({"none": [0.0], "fixed": [0.05]}, {"none": True, "fixed": True}),
        ({}, {"none": None, "fixed": None}),
    ],
)
def test_a_row_is_placed_only_where_its_shuffle_gap_was_measured(gaps, expected, tmp_path):
    rows = placed(finished(tmp_path, (6.0, 5.0)), gaps)
    assert {row.name: row.on_plateau for row in rows} == expected


def test_where_none_knows_order_the_gap_alone_decides(tmp_path):
    # as under causal attention, where positions may win nothing
    rows = placed(finished(tmp_path, (5.0, 5.0)), {"none": [2.1], "fixed": [2.1]})
    assert [row.on_plateau for row in rows] == [False, False]


def test_the_row_without_positions_is_recognised_by_its_scheme_and_not_by_its_name(tmp_path):
    rows = {"none": ["position=rope"], "depthwise": ["position=rope", "conv=depthwise"]}
    plan = finished(tmp_path, (5.0, 4.0), rows=rows)
    gaps = {name: [2.1] for name in rows}
    assert [row.order_known for row in placed(plan, gaps)] == [None, None]


def test_a_row_shows_after_how_many_tokens_it_found_order(tmp_path):
    plan = finished(tmp_path, (6.0, 4.0))
    for planned, losses in zip(plan, ({1: 6.0, 2: 6.0}, {1: 5.0, 2: 4.0}), strict=True):
        log(planned.pretrainings[0], losses)
    rows = placed(plan, {"none": [0.0], "fixed": [0.0]})
    tokens = plan[0].pretrainings[0].meaning["batch"] * plan[0].pretrainings[0].meaning["length"]
    assert [row.order_found for row in rows] == [
        Onset(None, 2 * tokens, None),
        Onset(tokens, 0, tokens),
    ]


@pytest.mark.parametrize("warmup", ["2", "0.2"])
def test_the_constant_phase_ends_where_the_rate_begins_to_fall(warmup, tmp_path):
    recipe = [
        f"pretrain.recipe.{key}={value}"
        for key, value in {"schedule": "wsd", "warmup": warmup, "decay": 0.3}.items()
    ]
    (planned,) = plan_table(small(tmp_path), ["fixed"], ["pretrain.steps=10", *recipe])
    run = finish(planned.pretrainings[0], {"heldout_loss": 4.0})
    log(run, dict.fromkeys(range(1, 11), 4.0))
    tokens = run.meaning["batch"] * run.meaning["length"]
    assert list(constant_phase([run])[0]) == [step * tokens for step in range(1, 8)]

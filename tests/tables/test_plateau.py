"""Which rows of a table are on the bag-of-words plateau."""

import json

import pytest

from relpos.results.plateau import Onset
from relpos.tables.experiment import load
from relpos.tables.plan import PlannedRow, plan_table
from relpos.tables.rows import constant_phase, values_of, with_plateau
from relpos.tables.table import Column, Row
from tables.small_data import finish, write_experiment


def told(rows: list[Row], plan: list[PlannedRow]) -> list[bool | None]:
    values = {planned.name: list(values_of(planned)) for planned in plan}
    return [row.on_plateau for row in with_plateau(rows, values, {})]


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ({"none": [0.0], "fixed": [0.4]}, {"none": True, "fixed": False}),
        ({"none": [0.0], "fixed": [0.05]}, {"none": True, "fixed": True}),
        ({}, {"none": None, "fixed": None}),
    ],
)
def test_rows_are_told_where_their_shuffle_gap_was_measured(gaps, expected, tmp_path):
    plan = plan_table(load(str(write_experiment(tmp_path))))
    for planned, loss in zip(plan, (6.0, 5.0), strict=True):
        finish(planned.pretrainings[0], {"heldout_loss": loss})
    columns = {
        name: {"shuffle_gap": Column(values=values, seeds=[(0, 0)])}
        for name, values in gaps.items()
    }
    rows = [Row(planned.name, columns=columns.get(planned.name, {})) for planned in plan]
    assert told(rows, plan) == list(expected.values())


def test_where_none_knows_order_the_gap_alone_decides(tmp_path):
    # as under causal attention, where positions may win nothing
    plan = plan_table(load(str(write_experiment(tmp_path))))
    for planned in plan:
        finish(planned.pretrainings[0], {"heldout_loss": 5.0})
    rows = [
        Row(planned.name, columns={"shuffle_gap": Column(values=[2.1], seeds=[(0, 0)])})
        for planned in plan
    ]
    assert told(rows, plan) == [False, False]


def test_a_row_is_none_by_its_scheme_and_not_by_its_name(tmp_path):
    rows = {"none": ["position=rope"], "depthwise": ["position=rope", "conv=depthwise"]}
    plan = plan_table(load(str(write_experiment(tmp_path, rows=rows))))
    for planned, loss in zip(plan, (5.0, 4.0), strict=True):
        finish(planned.pretrainings[0], {"heldout_loss": loss})
    values = {planned.name: list(values_of(planned)) for planned in plan}
    columns = {"shuffle_gap": Column(values=[2.1], seeds=[(0, 0)])}
    found = with_plateau([Row(planned.name, columns=columns) for planned in plan], values, {})
    assert [row.order_known for row in found] == [None, None]


def test_a_row_is_told_when_it_found_order(tmp_path):
    plan = plan_table(load(str(write_experiment(tmp_path))))
    for planned, losses in zip(plan, ([6.0, 6.0], [5.0, 4.0]), strict=True):
        run = planned.pretrainings[0]
        finish(run, {"heldout_loss": losses[-1]})
        logged = [
            json.dumps({"step": step, "heldout_loss": loss})
            for step, loss in zip((1, 2), losses, strict=True)
        ]
        (run.path / "metrics.jsonl").write_text("\n".join(logged) + "\n", encoding="utf-8")
    columns = {"shuffle_gap": Column(values=[0.0], seeds=[(0, 0)])}
    values = {planned.name: list(values_of(planned)) for planned in plan}
    curves = {planned.name: constant_phase(planned.pretrainings) for planned in plan}
    rows = with_plateau([Row(planned.name, columns=columns) for planned in plan], values, curves)
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
    (planned,) = plan_table(
        load(str(write_experiment(tmp_path))), ["fixed"], ["pretrain.steps=10", *recipe]
    )
    run = finish(planned.pretrainings[0], {"heldout_loss": 4.0})
    logged = [json.dumps({"step": step, "heldout_loss": 4.0}) for step in range(1, 11)]
    (run.path / "metrics.jsonl").write_text("\n".join(logged) + "\n", encoding="utf-8")
    tokens = run.meaning["batch"] * run.meaning["length"]
    assert list(constant_phase([run])[0]) == [step * tokens for step in range(1, 8)]

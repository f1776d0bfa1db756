"""Rows are shown as they are trained."""

from pathlib import Path

import pytest

from linked import pretrained
from relpos.commands.reproduce import arrivals
from relpos.runs.execute import execute
from relpos.tables.experiment import load
from relpos.tables.measurements import instrument, runs_of
from relpos.tables.plan import PlannedRow, plan_table
from tables.test_order_columns import write


@pytest.fixture
def plan(prepared: Path, tmp_path: Path) -> list[PlannedRow]:
    """A plan of two rows with two pre-trainings each; those of `none` are finished, and one of
    `absolute`."""
    common = ["snapshots=[50]"]
    pretrained(
        prepared,
        tmp_path / "runs",
        {
            "a": ["position=none", "seed=0", *common],
            "b": ["position=none", "seed=1", *common],
            "c": ["position=absolute", "seed=0", *common],
        },
    )
    return plan_table(load(str(write(tmp_path))))


def shown(
    plan: list[PlannedRow], folder: Path, capsys: pytest.CaptureFixture[str]
) -> list[list[str]]:
    """The words of each line after all these runs are settled."""
    of_order = instrument(load(str(folder / "ordered.yaml")), (), plan)
    measurements = runs_of(plan, of_order)
    settled = arrivals(plan, of_order, measurements)
    for row in plan:
        for run in row.pretrainings:
            settled(run)
    assert not capsys.readouterr().err
    for run in measurements:
        if run.inputs["network"].state == "finished":
            settled(execute(run))
    return [line.split() for line in capsys.readouterr().err.splitlines()]


def test_a_row_is_shown_once_its_last_pre_training_is_finished_and_measured(plan, tmp_path, capsys):
    heads, line = shown(plan, tmp_path, capsys)
    assert " ".join(heads) == "row perplexity n shuffle gap same-word pairs other pairs"
    assert line[0] == "none"
    assert float(line[1]) > 1
    assert {"0.000", "50.0"} < set(line)

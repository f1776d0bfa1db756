"""Tasks: the numbers of the authors' runs, and what becomes of their steps on other row counts."""

import pytest

from glue_tasks import CONF, NAMES, task
from relpos.data.tasks import authors_steps, epoch_steps


def test_there_is_a_file_for_each_task():
    assert {path.stem for path in CONF.glob("*.yaml")} >= {*NAMES, "custom"}


@pytest.mark.parametrize("name", NAMES)
def test_the_official_rows_get_the_authors_steps(name):
    t = task(name)
    assert authors_steps(t, t.rows, t.batch) == t.steps


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_epochs_are_near_the_authors_steps(name):
    t = task(name)  # Table 5 rounds; WNLI is in no table, its 100 steps are 5 epochs
    expected = t.steps if name != "wnli" else 60
    assert t.paper_epochs * epoch_steps(t.rows, t.paper_batch) == pytest.approx(expected, rel=0.06)


def test_a_subset_gets_the_same_number_of_epochs():
    t = task("qnli")  # 9,835 steps of 32 are 3.004 epochs
    assert authors_steps(t, 2_000, 32) == round(9_835 / 3_274 * 63) == 189


def test_another_batch_gets_the_same_number_of_epochs():
    assert authors_steps(task("rte"), 2_490, 64) == pytest.approx(777 / 2, abs=1)


def test_a_handful_of_rows_still_gets_a_step():
    assert authors_steps(task("cola"), 1, 32) >= 1


def test_the_table_has_nine_columns_and_wnli():
    columns = [column for name in NAMES for column in task(name).columns]
    assert sorted(columns) == sorted(
        ["cola", "mnli_m", "mnli_mm", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli"]
    )
    assert all(set(task(name).dev) == set(task(name).columns) for name in NAMES)


def test_three_tasks_start_from_mnli():
    assert [name for name in NAMES if task(name).intermediate == "mnli"] == ["mrpc", "rte", "stsb"]


def test_outputs_are_classes_or_one_value():
    assert [task(name).outputs for name in ("cola", "mnli", "stsb")] == [2, 3, 1]
    assert task("stsb").regression
    assert not task("cola").regression

"""What rows cost without a plan is what the plan says."""

from collections import Counter
from pathlib import Path

import pytest

from relpos.runs.cost import flops
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table, runs_of
from relpos.tables.unplanned import columns, work


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("chang2021_table6", ["small_none", "base_absolute"]),  # two sizes; tasks with an intermediate one
        ("chang2021_mini", ["composite_qk"]),  # epochs in place of steps
        ("two_stage", ["tisa_two", "tisa_whole"]),
        ("demo", None),
    ],
)
def test_the_operations_are_those_of_the_plan(table: str, rows: list[str] | None) -> None:
    given = load(table)
    runs = [run for run in runs_of(plan_table(given, rows)) if flops(run)]
    estimated = work(given, rows or given.rows)
    assert sum(part.operations for part in estimated) == pytest.approx(sum(map(flops, runs)))
    counts: Counter[str] = Counter()
    for part in estimated:
        counts[part.run.stage] += part.count
    assert counts == Counter(run.stage for run in runs)


def test_more_seeds_cost_as_much_more() -> None:
    given = load("demo")
    once, thrice = (sum(part.operations for part in work(given, ["none"], pretrain_seeds=n)) for n in (1, 3))
    assert thrice == pytest.approx(3 * once)


def test_fine_tunings_of_a_given_network_are_estimated_by_the_size_that_the_file_says() -> None:
    estimated = work(load("wennberg2021_table3a"), ["baseline"])
    assert {part.run.stage for part in estimated} == {"finetune"}
    assert sum(part.count for part in estimated) == 40
    assert sum(part.operations for part in estimated) == pytest.approx(1.38e19 / 4, rel=0.01)


def test_the_columns_are_those_of_the_tasks() -> None:
    assert columns(load("wennberg2021_table3a")) == ["sst2", "mnli_m", "mnli_mm", "qqp", "stsb", "cola", "mrpc", "qnli", "rte"]


def test_a_task_file_is_that_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for column in ("question", "answer"):
        (tmp_path / column).mkdir()
        monkeypatch.chdir(tmp_path / column)
        Path("own.yaml").write_text(f"columns: [{column}]", encoding="utf-8")
        Path("table.yaml").write_text("{question: why, rows: {a: []}, tasks: [own.yaml]}", encoding="utf-8")
        assert columns(load("table.yaml")) == [column]

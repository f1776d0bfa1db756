"""The numbers of a table, from records written by hand."""

from dataclasses import replace

import pytest

from pretend import bare
from relpos.results.values import GLUE
from relpos.runs.networks import of_run
from relpos.runs.run import Run
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.render import text
from relpos.tables.render.cells import text_of
from relpos.tables.render.view import view_of
from relpos.tables.rows import rows_of, summary, with_heldout_lengths
from relpos.tables.table import Row, Table
from tables.small_data import finish, finish_tuning, log

TASKS = {"mnli": ["mnli_m", "mnli_mm"]}


def pretraining(name: str, perplexity: float | None = 10.0) -> Run:
    meaning = {"name": name, "seed": 0, "position": None, "conv": None}
    config = {"seed": 0, "conv": None}
    run = bare("pretrain", name, meaning, config, {"store": bare("store", "text", {}, {})})
    metrics = {"perplexity": perplexity, "parameters": 1234567, "position_parameters": 17}
    return finish(run, metrics) if perplexity is not None else run


def tuning(
    row: str, task: str, seed: int, scores: list[float] | None, majority: float = -1.0
) -> Tuning:
    names = TASKS.get(task, [task])
    of_task = {"name": task, "columns": names, "metric": "relpos.train.metrics.accuracy"}
    start = {"start": bare("pretrain", row, {}, {})}
    run = bare(
        "finetune",
        f"{task}-{row}",
        {"row": row, "task": of_task, "seed": seed},
        {"task": of_task},
        start,
    )
    if scores is not None:
        finish_tuning(run, dict(zip(names, scores, strict=True)), 100, majority)
    return Tuning(task, 0, seed, run)


def table_rows(*rows: PlannedRow) -> list[Row]:
    return rows_of(rows)


def shown(row: Row) -> list[str]:
    """The texts of a row's columns, then of their mean."""
    return [text_of(column) for column in (*row.columns.values(), row.mean)]


def row(
    name: str, scores: dict[str, list[list[float] | None]], perplexity: float | None = 10.0
) -> PlannedRow:
    tunings = [
        tuning(name, task, seed, values)
        for task, seeds in scores.items()
        for seed, values in enumerate(seeds)
    ]
    return PlannedRow(name, [f"position={name}"], [pretraining(name, perplexity)], tunings)


def test_fine_tunings_of_one_pre_training_are_not_independent():
    column = summary({(0, 0): 69.0, (0, 1): 71.0, (1, 0): 73.0, (1, 1): 75.0}, several=True)
    assert (column.mean, column.best, column.median) == (72.0, 75.0, 72.0)
    assert column.sem == pytest.approx(2.0)  # of 70 and 74
    assert column.interval == (70.0, 74.0)
    assert summary({(0, 0): 69.0, (0, 1): 71.0}, several=True).sem is None


def test_a_pre_training_with_more_fine_tunings_than_another_does_not_count_more():
    # As deltas, intervals and claims have it: a cell that weighted them otherwise lay beside its
    # own interval.
    column = summary({(0, 0): 70.0, (0, 1): 70.0, (0, 2): 70.0, (1, 0): 80.0}, several=True)
    assert (column.mean, column.sem, column.interval) == (75.0, 5.0, (70.0, 80.0))


def test_the_mean_takes_the_best_of_each_column_and_says_how_many_seeds_are_whole():
    (whole,) = table_rows(
        row("none", {"cola": [[10.0], [40.0]], "rte": [[60.0], [50.0]], "sst2": [[90.0], None]})
    )
    assert (whole.mean.values, whole.mean.n_missing) == ([pytest.approx(160 / 3)], 1)
    assert whole.mean.best == pytest.approx((40 + 60 + 90) / 3)
    assert shown(whole)[-1] == "53.3, n=1"


def test_the_curve_is_the_mean_at_steps_that_all_pre_trainings_have_reached():
    runs = [pretraining("one"), pretraining("two")]
    log(runs[0], {10: 4.0, 20: 2.0})
    log(runs[1], {10: 5.0})
    assert table_rows(PlannedRow("none", [], runs, []))[0].heldout_loss == [(10, 4.5)]


def test_a_pre_training_under_way_does_not_cut_the_curve_of_finished_ones():
    """Otherwise a sweep would read losses at the step of the slowest pre-training."""
    runs = [pretraining("one"), pretraining("two", None)]
    log(runs[0], {10: 4.0, 20: 2.0})
    log(runs[1], {10: 5.0})
    assert table_rows(PlannedRow("none", [], runs, []))[0].heldout_loss == [(10, 4.0), (20, 2.0)]
    assert table_rows(PlannedRow("none", [], runs[1:], []))[0].heldout_loss == [(10, 5.0)]


def test_equal_scores_have_no_best():
    rows = table_rows(
        *(
            row(name, {"cola": [[0.0]], "rte": [[value]]})
            for name, value in (("a", 50.0), ("b", 60.0))
        )
    )
    (_, worse), (_, better) = view_of(Table("t", "?", rows)).lines
    assert not any(cell.is_best for cell in worse)
    # RTE and the mean; neither CoLA nor perplexity
    assert [cell.is_best for cell in better] == [False, False, False, False, True, True]


def test_a_missing_number_is_none_and_never_zero():
    (begun,) = table_rows(
        row("none", {"cola": [None, None], "rte": [[50.0], None]}, perplexity=None)
    )
    assert (begun.parameters, begun.perplexity, begun.columns["cola"].mean, begun.mean.mean) == (
        None,
        None,
        None,
        None,
    )
    rte = begun.columns["rte"]
    assert (rte.values, rte.seeds, rte.n_missing) == ([50.0], [(0, 0)], 1)
    assert shown(begun) == ["—", "50.0, n=1", "—"]


def test_a_column_says_of_how_many_pre_trainings_a_row_is_where_some_are_missing():
    begun = PlannedRow(
        "none", [], [pretraining("a", 10.0), pretraining("b", 12.0), pretraining("c", None)], []
    )
    whole = PlannedRow("fixed", [], [pretraining("d", 10.0)], [])
    _, perplexity, runs, *_ = view_of(Table("t", "?", table_rows(begun, whole))).columns
    assert [cell.text for cell in perplexity.cells] == ["11.00", "10.00"]
    assert (runs.title, [cell.text for cell in runs.cells]) == ("n", ["2/3", "1"])


def test_a_failed_run_is_counted():
    planned = row("none", {"cola": [[10.0], [20.0], None]})
    failed = planned.tunings[2].run
    failed.path.mkdir(parents=True)
    failed.update(state="failed", error="no")
    column = table_rows(planned)[0].columns["cola"]
    assert (column.n_failed, column.n_missing, column.seeds) == (1, 0, [(0, 0), (0, 1)])
    assert text_of(column) == "15.0 ± 5.0 (20.0), n=2, 1 failed"


def test_runs_no_better_than_the_majority_class_are_counted():
    tunings = [
        tuning("none", "rte", seed, [score], majority=52.7)
        for seed, score in enumerate((52.7, 47.0, 60.0))
    ]
    column = table_rows(PlannedRow("none", [], [pretraining("none")], tunings))[0].columns["rte"]
    assert (column.n_collapsed, column.median) == (2, 52.7)
    assert column.interval[0] < column.mean < column.interval[1]
    assert "2 collapsed" in text_of(column)


def test_glue_is_the_mean_of_nine_columns_seed_by_seed():
    tasks = ("cola", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli")
    scores: dict[str, list[list[float] | None]] = {task: [[10.0], [40.0]] for task in tasks}
    scores["mnli"] = [[19.0, 28.0], [40.0, 40.0]]
    rows = table_rows(row("none", scores))
    mean = rows[0].mean
    assert mean.of == list(GLUE)
    assert mean.values == [pytest.approx(13.0), pytest.approx(40.0)]  # WNLI is not in it
    assert mean.sem == pytest.approx(13.5)
    assert view_of(Table("t", "?", rows)).columns[-1].title == "GLUE"


def test_a_table_says_which_tasks_were_trained_on_a_part_of_glue():
    of_task = {
        "name": "qqp",
        "columns": ["qqp"],
        "metric": "relpos.train.metrics.accuracy",
        "rows": 1000,
    }
    of_row = row("fixed", {})
    for read in (20, 995):  # some rows of the official files are broken
        meaning = {"task": of_task, "seed": 0, "glue": {"files": [["QQP/train.tsv", read, ""]]}}
        run = bare("finetune", "qqp", meaning, {"task": of_task}, {"start": of_row.pretrainings[0]})
        finish(run, {"columns": {"qqp": 60.0}, "training_rows": read})
        rows = table_rows(replace(of_row, tunings=[Tuning("qqp", 0, 0, run)]))
        notes = " ".join(view_of(Table("t", "?", rows)).notes)
        assert (
            "a part of the official training examples" in notes and "qqp (20 of 1,000)" in notes
        ) == (read == 20)


def table() -> Table:
    rows = [
        row("none", {"cola": [[0.0]], "rte": [[51.0]]}, 12.0),
        row("fixed", {"cola": [[40.0]], "rte": [None]}, 9.0),
    ]
    return Table("t", "why?", table_rows(*rows))


def test_the_best_cells_are_marked():
    lines = text.markdown(view_of(table())).splitlines()
    assert "| none | 1,234,567 | 12.00 | 1 × 1 | 0.0 | 51.0 | 25.5 |" in lines
    assert "| fixed | 1,234,567 | **9.00** | 1 × 0/1 | **40.0** | — | — |" in lines


def test_a_length_that_cannot_be_measured_costs_its_cells_and_not_the_table(capsys, monkeypatch):
    plan = [row("none", {}), row("fixed", {})]  # of the first there is no more than its record
    of_fixed = {"lengths": {"8": {"loss": 3.5}, "16": {"loss": None}}}
    monkeypatch.setattr(
        "relpos.tables.rows.of_run", lambda run: run if "fixed" in run.name else of_run(run)
    )
    monkeypatch.setattr("relpos.tables.rows.measured", lambda sample, measures: of_fixed)
    rows = with_heldout_lengths(table_rows(*plan), plan, [8, 16])
    assert [row.heldout_by_length for row in rows] == [
        {"8": None, "16": None},
        {"8": 3.5, "16": None},
    ]
    assert capsys.readouterr().err.startswith("relpos: none without lengths: ")

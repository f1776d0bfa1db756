"""What an experiment file says of its own rows: scores held to a bound."""

from pathlib import Path
from typing import Any

import pytest

from relpos.claims.claim import load_checks
from relpos.claims.verdict import Verdict
from relpos.commands.reproduce import show
from relpos.errors import RelposError
from relpos.launch.engine import Debug
from relpos.results.scale import Scales
from relpos.runs.table_file import read_table
from relpos.tables.experiment import Experiment, load
from relpos.tables.plan import plan_table
from relpos.tables.table import Column, Row, Table, scale_of
from tables.small_data import write_experiment

RTE: dict[str, Any] = {"metric": "accuracy", "majority": 50.0, "examples": 400}


def column(mean: float | None, **dev_set: Any) -> Column:
    return Column(values=[] if mean is None else [mean], seeds=[] if mean is None else [(0, 0)], mean=mean, **dev_set)


def file(**check: Any) -> Experiment:
    return Experiment("t", Path(), "?", {"none": [], "fixed": []}, [], checks=[{"says": "so"} | check])


def judged(test: dict[str, Any], rows: list[Row]) -> Verdict:
    (claim,) = load_checks(file(test={"columns": ["rte"]} | test))
    (verdict,) = claim.verdicts(Scales([scale_of(rows)]))
    return verdict


def verdict(rule: str, bound: Any = None, **means: float | None) -> str:
    rows = [Row(name, columns={"rte": column(mean, **RTE)}) for name, mean in means.items()]
    return judged({"rule": f"levels.{rule}", "rows": ["none"]} | ({} if bound is None else {"bound": bound}), rows).verdict


def test_at_most_chance_allows_three_standard_errors() -> None:
    assert verdict("at_most", "chance", none=57.4) == "holds"
    assert verdict("at_most", "chance", none=57.6) == "fails"


def test_a_level_is_the_mean_over_pre_trainings_as_the_cell_beside_it() -> None:
    scores = Column(values=[60.0, 60.0, 60.0, 80.0], seeds=[(0, 0), (0, 1), (0, 2), (1, 0)], mean=70.0, **RTE)
    rows = [Row("none", columns={"rte": scores})]
    assert judged({"rule": "levels.at_least", "rows": ["none"], "bound": 70}, rows).verdict == "holds"


def test_at_least_is_undecided_within_three_standard_errors() -> None:
    assert verdict("at_least", 85, none=85.0) == "holds"
    assert verdict("at_least", 85, none=81.0) == "undecided"
    assert verdict("at_least", 85, none=70.0) == "fails"


def test_near_the_best_row() -> None:
    assert verdict("near_best", none=88.0, fixed=92.0) == "holds"
    assert verdict("near_best", none=80.0, fixed=92.0) == "fails"
    assert verdict("near_best", none=80.0, fixed=None) == "holds"


def test_a_number_needs_no_chance() -> None:
    rows = [Row("none", columns={"rte": column(20.0, metric="accuracy", examples=400)})]
    for rule, bound, outcome in (("at_most", 30, "holds"), ("at_least", 30, "fails"), ("at_most", "chance", "not run")):
        assert judged({"rule": f"levels.{rule}", "rows": ["none"], "bound": bound}, rows).verdict == outcome


def test_what_was_not_run_is_not_decided() -> None:
    assert verdict("at_most", "chance", none=None) == "not run"
    assert verdict("at_most", "chance", fixed=50.0) == "not run"


def test_a_column_that_the_table_was_made_without_was_not_run() -> None:
    rows = [Row("none", columns={"rte": column(60.0, metric="accuracy", examples=400)})]
    found = judged({"rule": "levels.near_best", "rows": ["none"], "columns": ["rte", "sst2"]}, rows)
    assert found.verdict == "not run"
    assert found.figures.endswith("none sst2 not run")


def test_any_rule_about_rows_can_be_written_in_an_experiment_file() -> None:
    rows = [Row(name, columns={"rte": column(mean, **RTE)}) for name, mean in (("none", 55.0), ("fixed", 70.0))]
    found = judged({"rule": "comparisons.higher", "contrasts": [["fixed", "none"]]}, rows)
    assert (found.verdict, "fixed − none +15.0" in found.figures) == ("undecided", True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rows": "none"}, r"t\.yaml: check 1: rows=none: a list"),
        ({"rows": ["nnoe"]}, r"t\.yaml: check 1: unknown row 'nnoe'. Did you mean 'none'"),
        ({"columns": "rte"}, r"t\.yaml: check 1: columns=rte: a list"),
        ({"rule": "levels.at_mots"}, r"t\.yaml: check 1: test: unknown rule"),
        ({"bound": "chanse"}, "bound=chanse: .*Did you mean 'chance'"),
        ({"bond": 1}, "check 1: test: unknown argument 'bond'"),
        ({"columns": ["same_word_pairs"]}, r"check 1: same_word_pairs is measured with order: \[pairs\]"),
    ],
)
def test_a_mistake_in_a_check_is_one_line_before_anything_is_trained(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(RelposError, match=said):
        load_checks(file(test={"rule": "levels.at_most", "rows": ["none"], "columns": ["rte"], "bound": 1} | wrong))


def test_a_check_says_something_and_has_a_test() -> None:
    for check in ({"says": ""}, {"test": "levels.at_most"}, {}):
        with pytest.raises(RelposError, match="check 1: says and test are needed"):
            load_checks(file(**check))


HIGHER: dict[str, Any] = {"rule": "comparisons.higher", "contrasts": [["fixed", "none"]]}


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (HIGHER | {"at": "largest"}, "check 1: a table is one scale"),
        ({"rule": "trends.steady", "contrasts": [["fixed", "none"]]}, "check 1: a table is one scale"),
        ({"rule": "records.step_time", "row": "fixed", "others": ["none"]}, "check 1: a table is one scale"),
        ({"rule": "weights.neighbours", "row": "none"}, "check 1: a table is one scale"),
        (HIGHER | {"column": "shuffle_gap"}, r"check 1: shuffle_gap is measured with order: \[shuffle\]"),
        ({"columns": ["rte"]}, "check 1: test: unknown rule ''"),
    ],
)
def test_a_check_that_no_table_can_answer_is_refused_when_its_file_is_read(test: dict[str, Any], said: str) -> None:
    with pytest.raises(RelposError, match=said):
        load_checks(file(test=test))


def test_a_check_of_which_its_judge_says_nothing_is_shown_as_not_run(tmp_path: Path) -> None:
    given = load(str(write_experiment(tmp_path, checks=[{"says": "so", "test": HIGHER}])))
    show(given, plan_table(given), tmp_path / "table", None, Debug(), load_checks(given))
    assert [(check.says, check.verdict) for check in read_table(tmp_path / "table", Table).checks] == [("so", "not run")]

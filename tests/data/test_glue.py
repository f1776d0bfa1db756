"""GLUE rows from files: labels and refusals."""

from pathlib import Path
from typing import Any

import pytest

from glue_tasks import task, write
from relpos.data.glue import Rows, TsvGlue, read
from relpos.errors import RelposError

PAIRS = "index\tsentence1\tsentence2\tlabel\n"
SCORES = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"


def rows(folder: Path, name: str, split: str = "train") -> Rows:
    return read(TsvGlue(folder), task(name), split)


def refusal(*arguments: Any) -> str:
    with pytest.raises(RelposError) as caught:
        rows(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_cola_has_no_header(tmp_path):
    write(tmp_path, "CoLA/train.tsv", "gj04\t1\t\tHe sat.\ngj04\t0\t*\tSat he the.")
    assert rows(tmp_path, "cola") == Rows(["He sat.", "Sat he the."], None, [1, 0])


def test_words_become_classes_in_the_order_of_the_hub(tmp_path):
    write(tmp_path, "RTE/train.tsv", f"{PAIRS}7\ta\tb\tnot_entailment\n9\tc\td\tentailment\n")
    assert rows(tmp_path, "rte") == Rows(["a", "c"], ["b", "d"], [1, 0])


def test_gold_label_is_the_label_of_mnli(tmp_path):
    header = "index\tsentence1\tsentence2\tlabel1\tgold_label\n"
    write(tmp_path, "MNLI/dev_matched.tsv", f"{header}0\ta\tb\tneutral\tcontradiction\n")
    assert rows(tmp_path, "mnli", "dev_matched").labels == [2]


def test_scores_are_numbers(tmp_path):
    write(tmp_path, "STS-B/train.tsv", SCORES + "0" + "\tx" * 6 + "\ta\tb\t3.800\n")
    assert rows(tmp_path, "stsb").labels == [3.8]


def test_a_test_split_has_no_labels(tmp_path):
    assert not TsvGlue(tmp_path).has(task("qqp"), "test")
    write(tmp_path, "QQP/test.tsv", "id\tquestion1\tquestion2\n4\ta\tb\n2\tc\td\n")
    assert TsvGlue(tmp_path).has(task("qqp"), "test")
    assert rows(tmp_path, "qqp", "test") == Rows(["a", "c"], ["b", "d"], None)


def test_label_outside_the_set_is_refused_with_line_and_set(tmp_path):
    path = write(tmp_path, "RTE/train.tsv", f"{PAIRS}0\ta\tb\tentailment\n1\ta\tb\tentailmnt\n")
    assert refusal(tmp_path, "rte") == (
        f"{path} line 3: label 'entailmnt' is outside the set. Did you mean 'entailment' or "
        f"'not_entailment'?"
    )


def test_all_labels_are_listed_in_their_order_where_none_is_near(tmp_path):
    write(tmp_path, "SST-2/train.tsv", "sentence\tlabel\nx\t2\n")
    assert refusal(tmp_path, "sst2").endswith(
        "SST-2/train.tsv line 2: label '2' is outside the set. Known: 0, 1."
    )


@pytest.mark.parametrize(
    ("score", "what"),
    [("high", "not a number"), ("5.1", "outside 0 to 5"), ("nan", "not a number")],
)
def test_bad_scores_are_refused_with_their_line(tmp_path, score, what):
    write(tmp_path, "STS-B/dev.tsv", SCORES + "0" + "\tx" * 6 + f"\ta\tb\t{score}\n")
    message = refusal(tmp_path, "stsb", "dev")
    assert f"line 2: score '{score}' is {what}" in message


@pytest.mark.parametrize("column", ["sentence2", "label"])
def test_missing_column_is_refused_with_the_nearest(tmp_path, column):
    path = write(tmp_path, "WNLI/train.tsv", PAIRS.replace(column, column.upper()) + "0\ta\tb\t1\n")
    assert f"{path}: no column '{column}'." in refusal(tmp_path, "wnli")

"""A task of the user's own: what its files make of it, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from glue_tasks import write
from relpos.data.own_task import OwnTask
from relpos.errors import RelposError
from relpos.trust import instantiate


def task_arguments(
    folder: Path, train: list[str], dev: list[str] | None = None, **keys: Any
) -> dict[str, Any]:
    """The arguments of the task whose training rows have these labels."""
    for split, words in (("train", train), ("dev", train if dev is None else dev)):
        lines = "".join(f"some words\t{word}\n" for word in words)
        write(folder, f"{split}.tsv", f"text\tlabel\n{lines}")
    return OwnTask(folder=str(folder), columns="text", **keys).arguments()


@pytest.mark.parametrize(
    ("train", "labels", "classes"),
    [
        (["b", "a", "c", "a"], None, ["a", "b", "c"]),
        (["10", "9", "-1"], None, ["-1", "9", "10"]),  # sorted as numbers
        (["9", "1" * 4301], None, ["1" * 4301, "9"]),  # no number that Python reads
        (["b", "a"], ["c", "b", "a"], ["c", "b", "a"]),
    ],
)
def test_the_classes_are_those_of_the_training_file_sorted_or_those_that_are_given(
    train, labels, classes, tmp_path
):
    assert task_arguments(tmp_path, train, labels=labels)["labels"] == classes


def test_boolq_of_superglue_is_a_task_as_it_is_published(tmp_path):
    row = '{"question": "is a b", "passage": "A -- a is it.", "idx": 0'
    for split in ("train", "dev"):
        write(tmp_path, f"{split}.jsonl", f'{row}, "label": true}}\n{row}, "label": false}}\n')
    write(tmp_path, "test.jsonl", f"{row}}}\n")
    arguments = OwnTask(folder=str(tmp_path), columns=["question", "passage"]).arguments()
    assert (arguments["labels"], arguments["rows"]) == (["false", "true"], 2)


def test_a_label_of_the_dev_file_that_is_never_trained_on_is_refused_with_its_line(tmp_path):
    with pytest.raises(
        RelposError, match=r"dev\.tsv line 3: label 'c' is outside the set\. Known: a, b\."
    ):
        task_arguments(tmp_path, ["a", "b"], dev=["a", "c"])


def test_numbers_make_a_regression(tmp_path):
    arguments = task_arguments(tmp_path, ["0.5", "3"], kind="number")
    assert arguments["labels"] is None
    assert arguments["metric"] == "relpos.train.metrics.pearson_and_spearman"


@pytest.mark.parametrize("word", ["", "high", "nan", "inf"])
def test_a_label_that_is_no_number_is_refused_with_its_line(tmp_path, word):
    with pytest.raises(RelposError, match=rf"train\.tsv line 3: score '{word}' is not a number"):
        task_arguments(tmp_path, ["1", word], kind="number")


def test_epochs_become_steps_of_the_training_rows(tmp_path):
    arguments = task_arguments(tmp_path, ["a", "b"] * 5, batch=4, epochs=2)
    assert (arguments["rows"], arguments["steps"]) == (10, 6)


def test_the_folder_names_the_task_unless_a_name_is_given(tmp_path):
    assert task_arguments(tmp_path / "film reviews", ["a", "b"])["columns"] == ["film_reviews"]
    assert task_arguments(tmp_path, ["a", "b"], name="films")["dev"] == {"films": "dev"}


def test_a_relative_folder_lies_below_relpos_data(tmp_path, monkeypatch):
    monkeypatch.setenv("RELPOS_DATA", str(tmp_path))
    assert OwnTask(folder="mine", columns="text").files.folder == tmp_path / "mine"


def test_files_that_have_changed_are_read_again(tmp_path):
    assert task_arguments(tmp_path, ["a", "b"])["rows"] == 2
    assert task_arguments(tmp_path, ["a", "b", "c"])["rows"] == 3


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "", "b"], r"train\.tsv line 3: no label"),
        (["a", "a"], r"train\.tsv: every row has the label 'a'"),
        (
            [f"{n}.5" for n in range(1_001)],
            r"train\.tsv: 1,001 different labels .* task\.kind=number",
        ),
    ],
)
def test_labels_that_make_no_classes_are_refused(tmp_path, labels, message):
    with pytest.raises(RelposError, match=message):
        task_arguments(tmp_path, labels)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "task.folder must be given"),
        ({"folder": "f"}, "task.columns must be given"),
        ({"folder": "f", "columns": ["a", "b", "c"]}, "task.columns must be given"),
        (
            {"folder": "f", "columns": "a", "kind": "numbers"},
            "task.kind=numbers: classes or number is expected. Did you mean 'number'?",
        ),
        (
            {"folder": "f", "columns": "a", "kind": "number", "labels": ["a", "b"]},
            "task.labels: task.kind=number has no classes",
        ),
        (
            {"folder": "f", "columns": "a", "labels": ["a", "a"]},
            "task.labels: two or more different classes",
        ),
        ({"folder": "f", "columns": "a", "epochs": 0}, "task.epochs=0: a number above 0"),
    ],
)
def test_a_wrong_key_of_a_task_is_named(keys, message):
    with pytest.raises(RelposError) as caught:
        instantiate({"_target_": "relpos.data.own_task.OwnTask", **keys}, "task")
    assert str(caught.value).startswith(message)

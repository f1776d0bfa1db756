"""`nyu-mll/glue`'s layout, from a local copy of it: the same rows as from the TSV files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from glue_tasks import task, write
from relpos.data.glue import HubGlue, Rows, TsvGlue, read
from relpos.errors import RelposError

Columns = dict[str, list[str] | list[int] | list[float]]


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = pytest.importorskip("datasets").config
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(config, "HF_HUB_OFFLINE", True)


def put(folder: Path, config: str, splits: dict[str, Columns], names: Sequence[str] | None) -> None:
    """One configuration as Parquet files, with the README that declares it."""
    import datasets

    lines = []
    for split, columns in splits.items():
        label = datasets.ClassLabel(names=list(names)) if names else datasets.Value("float32")
        types = {"label": label, "idx": datasets.Value("int32"), "id": datasets.Value("int32")}
        features = {key: types.get(key, datasets.Value("string")) for key in columns}
        table = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
        path = folder / config / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table.to_parquet(path)
        lines.append(f"  - split: {split}\n    path: {config}/{split}-*")
    readme = folder / "README.md"
    before = readme.read_text().removesuffix("---\n") if readme.exists() else "---\nconfigs:\n"
    readme.write_text(
        before + f"- config_name: {config}\n  data_files:\n" + "\n".join(lines) + "\n---\n"
    )


def train(folder: Path, name: str) -> Rows:
    return read(HubGlue(str(folder)), task(name), "train")


def test_hub_and_files_give_the_same_rows(tmp_path):
    text = {"premise": ["a", "c"], "hypothesis": ["b", "d"]}
    train: Columns = {**text, "label": [2, 0], "idx": [5, 3]}
    hidden: Columns = {**text, "label": [-1, -1], "idx": [5, 3]}
    names = ["entailment", "neutral", "contradiction"]
    put(
        tmp_path / "hub",
        "mnli",
        {"train": train, "validation_matched": train, "test_matched": hidden},
        names,
    )
    put(tmp_path / "hub", "ax", {"test": hidden}, names)
    labelled = (
        "index\tsentence1\tsentence2\tgold_label\n5\ta\tb\tcontradiction\n3\tc\td\tentailment\n"
    )
    plain = "index\tsentence1\tsentence2\n5\ta\tb\n3\tc\td\n"
    for name in ("train", "dev_matched"):
        write(tmp_path, f"MNLI/{name}.tsv", labelled)
    write(tmp_path, "MNLI/test_matched.tsv", plain)
    write(tmp_path, "AX/test.tsv", plain)
    hub = HubGlue(str(tmp_path / "hub"))
    for split in ("train", "dev_matched", "test_matched", "ax"):
        assert hub.has(task("mnli"), split)
        assert read(hub, task("mnli"), split) == read(TsvGlue(tmp_path), task("mnli"), split)
    assert not hub.has(task("mnli"), "test_mismatched")


@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        ("mrpc", ["equivalent", "not_equivalent"], [1, 0]),
        ("rte", ["not_entailment", "entailment"], [1, 0]),
        ("qnli", ["entailment", "not_entailment"], [0, 1]),
        ("qqp", ["duplicate", "not_duplicate"], [1, 0]),
        ("cola", ["acceptable", "unacceptable"], [1, 0]),
        ("sst2", ["Positive", "Negative"], [1, 0]),
        ("sst2", ["1", "0"], [1, 0]),
        ("mnli", ["contradiction", "entailment", "neutral"], [2, 0]),
    ],
)
def test_classes_are_known_by_their_names_whatever_their_numbers(name, names, expected, tmp_path):
    texts = {column: ["a", "b"] for column in task(name).hub_sentences or task(name).sentences}
    columns: Columns = {**texts, "label": [0, 1], "idx": [0, 1]}
    put(tmp_path / "hub", name, {"train": columns}, names)
    assert train(tmp_path / "hub", name).labels == expected


def test_classes_of_other_names_than_the_tasks_are_refused(tmp_path):
    put(tmp_path / "hub", "cola", {"train": {"sentence": ["a"], "label": [0]}}, ["good", "bad"])
    with pytest.raises(
        RelposError,
        match="cola train: class 'good' is none of task=cola: unacceptable, acceptable, 0, 1 are",
    ):
        train(tmp_path / "hub", "cola")


SCORES: Columns = {"sentence1": ["a"], "sentence2": ["b"], "label": [3.8], "idx": [0]}


def test_scores_read_as_in_the_files(tmp_path):
    put(tmp_path / "hub", "stsb", {"train": SCORES}, None)
    assert train(tmp_path / "hub", "stsb").labels == [3.8]


def test_a_missing_glue_data_set_is_refused_in_one_line(tmp_path):
    with pytest.raises(RelposError, match=r"data set '.*nowhere' \(rte\): ") as caught:
        train(tmp_path / "nowhere", "rte")
    assert "\n" not in str(caught.value)


def test_a_damaged_file_of_a_data_set_is_refused_in_one_line(tmp_path):
    put(tmp_path / "hub", "stsb", {"train": SCORES}, None)
    [path] = (tmp_path / "hub").glob("stsb/*.parquet")
    path.write_bytes(b"PAR1" + bytes(40) + path.read_bytes()[44:])
    with pytest.raises(RelposError, match=r"data set '.*hub' \(stsb\): ") as caught:
        train(tmp_path / "hub", "stsb")
    assert "\n" not in str(caught.value)


def test_a_text_that_is_null_is_refused_with_its_row(tmp_path):
    columns: Any = {"sentence": ["a", None], "label": [0, 1]}
    put(tmp_path / "hub", "cola", {"train": columns}, ["0", "1"])
    with pytest.raises(RelposError, match=r"cola train row 2: column 'sentence' holds null"):
        train(tmp_path / "hub", "cola")

"""The zip for the GLUE server: eleven files, each from the best dev run of its column, each as the
server wants it."""

import csv
import os
import zipfile
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from glue_tasks import task
from glue_tasks import write as write_rows
from relpos.cli import main
from relpos.commands.submit import layout
from relpos.data.glue import TsvGlue
from relpos.runs.table_file import RowRun
from relpos.tables.table import Row, Table
from relpos.train.finetune import Splits, columns
from tables.written_table import write

OFFICIAL = {
    "AX": 1104,
    "CoLA": 1063,
    "MNLI-m": 9796,
    "MNLI-mm": 9847,
    "MRPC": 1725,
    "QNLI": 5463,
    "QQP": 390965,
}
OFFICIAL |= {"RTE": 3000, "SST-2": 1821, "STS-B": 1379, "WNLI": 146}
TASKS = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli")
ANSWERS = {answers.file: answers for answers in layout()}


def runs_of(name: str, scores: dict[str, dict[str, list[float]]]) -> list[RowRun]:
    """Finished fine-tunings: task → column → a score per seed."""
    runs = []
    for key, of_task in scores.items():
        for seed, values in enumerate(zip(*of_task.values(), strict=True)):
            columns = dict(zip(of_task, values, strict=True))
            path = f"finetune/{key}-{name}-{seed}"
            runs.append(
                RowRun(
                    "finetune",
                    "x",
                    "finished",
                    path,
                    key,
                    pretrain_seed=0,
                    seed=seed,
                    columns=columns,
                )
            )
    return runs


def table_of(runs: list[RowRun]) -> Table:
    return Table("t", "?", [Row("composite key", runs=runs)])


SCORES: dict[str, dict[str, list[float]]] = {
    key: {key: [50.0, 60.0]} for key in TASKS if key != "mnli"
}
SCORES["mnli"] = {"mnli_m": [70.0, 71.0], "mnli_mm": [73.0, 72.0]}


@pytest.fixture
def predicted(tmp_path: Path) -> Path:
    """$RELPOS_RUNS with a table of one row, whose runs have predicted every test file. Small QQP:
    its size is data."""
    runs = tmp_path / "runs"
    write(runs, table_of(runs_of("c", SCORES)))
    for run in runs_of("c", SCORES):
        for file in task(str(run.task)).test:
            labels = task(str(run.task)).labels
            answer = labels[run.seed] if labels else "2.500"
            lines = [f"{row}\t{answer}\n" for row in range(ANSWERS[file].rows)]
            text = "".join(["index\tprediction\n", *lines])
            write_rows(runs / run.path / "predictions", f"{file}.tsv", text)
    return runs


def submit(*overrides: str) -> int:
    return main(["submit", "table=t", "row='composite key'", *overrides])


def inside(runs: Path) -> dict[str, str]:
    with zipfile.ZipFile(runs / "tables/t/submissions/composite key.zip") as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_the_layout_is_the_official_one():
    assert {answers.file: answers.rows for answers in layout()} == OFFICIAL


def test_all_eleven_files_come_from_the_best_dev_runs(predicted, capsys):
    assert submit() == 0
    assert capsys.readouterr().out.strip() == str(
        predicted / "tables/t/submissions/composite key.zip"
    )
    files = inside(predicted)
    assert set(files) == {f"{file}.tsv" for file in OFFICIAL}
    assert {name: text.count("\n") - 1 for name, text in files.items()} == {
        f"{file}.tsv": rows for file, rows in OFFICIAL.items()
    }
    second = {
        name for name, text in files.items() if text.startswith("index\tprediction\n0\tneutral\n")
    }
    assert second == {"MNLI-m.tsv", "AX.tsv"}  # seed 1 is best on m, seed 0 on mm
    assert files["MNLI-mm.tsv"].startswith("index\tprediction\n0\tentailment\n")
    assert files["CoLA.tsv"].startswith("index\tprediction\n0\t1\n")


def test_missing_predictions_are_refused_by_name(predicted, capsys):
    (predicted / "finetune/mnli-c-1/predictions/AX.tsv").unlink()
    for seed in (0, 1):
        (predicted / f"finetune/wnli-c-{seed}/predictions/WNLI.tsv").unlink()
    assert submit() == 1
    stderr = capsys.readouterr().err
    assert len(stderr.splitlines()) == 1
    assert "AX: finetune/mnli-c-1 was not given the test file" in stderr
    assert "WNLI: finetune/wnli-c-1 was not given the test file" in stderr
    assert "CoLA" not in stderr
    assert "a run whose folder is deleted is made again" in stderr
    assert "allow_missing=true" in stderr
    assert not (predicted / "tables/t/submissions").exists()


def test_missing_predictions_may_be_filled_and_are_named(predicted, capsys):
    (predicted / "finetune/wnli-c-1/predictions/WNLI.tsv").unlink()
    assert submit("allow_missing=true") == 0
    assert (
        "WNLI: finetune/wnli-c-1 was not given the test file; every row says 0: no result"
        in capsys.readouterr().err
    )
    assert inside(predicted)["WNLI.tsv"] == "index\tprediction\n" + "".join(
        f"{row}\t0\n" for row in range(146)
    )


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], "STS-B: no finished run has stsb"),
        (["allow_missing=true"], "no run of it has predicted a test file"),
    ],
)
def test_a_column_without_runs_is_named_and_constants_alone_are_no_submission(
    overrides, message, tmp_path, capsys
):
    write(tmp_path / "runs", table_of(runs_of("c", {"cola": {"cola": [1.0]}})))
    assert submit(*overrides) == 1
    assert message in capsys.readouterr().err


def test_a_wrong_file_is_refused_even_where_missing_ones_may_be(predicted, capsys):
    path = predicted / "finetune/rte-c-1/predictions/RTE.tsv"
    path.write_text(
        "".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8"
    )
    assert submit("allow_missing=true") == 1
    assert "RTE: 2,999 rows where the server has 3,000" in capsys.readouterr().err


@pytest.mark.parametrize(("overrides", "message"), [
    (["table=t", "row=compsite"], "unknown row 'compsite'. Did you mean 'composite key'?"),
    (["table=tt", "row=x"], "no table 'tt' in "),
])  # fmt: skip
def test_a_wrong_override_of_a_submission_is_one_line(overrides, message, predicted, refused):
    assert message in refused("submit", *overrides)


class Words:
    """A tokenizer that knows lengths only."""

    pad, cls, sep, separators = 0, 2, 3, 1

    def encode(self, sentences: list[str]) -> list[list[int]]:
        return [[5] * len(sentence.split()) for sentence in sentences]


class Constant(nn.Module):
    """A classifier with the same answer for every pair."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(1, 3)

    def forward(self, input_ids: Tensor, *_: Tensor) -> Tensor:
        return torch.tensor([[0.0, 1.0, 0.0]]).expand(len(input_ids), 3)


def test_an_mnli_run_answers_ax_too(tmp_path):
    head = "index\tsentence1\tsentence2"
    for split in ("dev_matched", "dev_mismatched"):
        write_rows(tmp_path, f"MNLI/{split}.tsv", f"{head}\tgold_label\n0\ta b\tc\tneutral\n")
    write_rows(tmp_path, "MNLI/test_matched.tsv", f"{head}\n0\ta\tb\n1\ta\tb\n")
    write_rows(tmp_path, "AX/test.tsv", f"{head}\n0\ta\tb c\n1\ta\tb\n2\td\te")
    columns(
        Constant(),
        task("mnli"),
        Splits(TsvGlue(tmp_path), task("mnli"), Words(), 16),
        "fp32",
        tmp_path / "predictions",
    )  # type: ignore[arg-type]
    # the mismatched test file is not there
    assert sorted(os.listdir(tmp_path / "predictions")) == ["AX.tsv", "MNLI-m.tsv"]
    with (tmp_path / "predictions/AX.tsv").open(encoding="utf-8") as file:
        assert list(csv.reader(file, delimiter="\t")) == [
            ["index", "prediction"],
            *([str(row), "neutral"] for row in range(3)),
        ]

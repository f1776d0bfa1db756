"""Files for the GLUE server: names, header, words, clipped scores."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from glue_tasks import NAMES, task
from relpos.data.task_batches import Encoded
from relpos.train.finetune import outputs, write_predictions

SERVER = {"AX", "CoLA", "MNLI-m", "MNLI-mm", "MRPC", "QNLI", "QQP", "RTE", "SST-2", "STS-B", "WNLI"}


def test_the_tasks_name_all_files_of_the_server():
    assert {name for key in NAMES for name in task(key).test} == SERVER


def test_a_file_has_a_header_and_numbers(tmp_path):
    path = write_predictions(tmp_path / "submission", task("cola"), "CoLA", [1.0, 0.0])
    assert path == tmp_path / "submission" / "CoLA.tsv"
    assert path.read_bytes() == b"index\tprediction\n0\t1\n1\t0\n"


@pytest.mark.parametrize(("key", "name", "words"), [
    ("mnli", "MNLI-mm", ["entailment", "neutral", "contradiction"]),
    ("mnli", "AX", ["entailment", "neutral", "contradiction"]),
    ("rte", "RTE", ["entailment", "not_entailment"]),
    ("qnli", "QNLI", ["entailment", "not_entailment"]),
])  # fmt: skip
def test_inference_tasks_are_written_in_words(tmp_path, key, name, words):
    count = len(words)
    lines = write_predictions(tmp_path, task(key), name, range(count)).read_text().splitlines()
    assert lines[1:] == [f"{row}\t{word}" for row, word in enumerate(words)]


def test_a_label_is_one_value_of_one_line(tmp_path):
    labels = ["a\tb", "a\nb", "a\r\nb", "a\u2028b", "a b", "\\"]
    path = write_predictions(
        tmp_path, replace(task("rte"), labels=labels), "RTE", range(len(labels))
    )
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[1:] == ["0\ta b", "1\ta b", "2\ta  b", "3\ta b", "4\ta b", "5\t\\"]


def test_scores_are_clipped_to_their_range(tmp_path):
    path = write_predictions(tmp_path, task("stsb"), "STS-B", [-0.5, 2.34567, 7.0, float("nan")])
    assert path.read_text().splitlines()[1:] == ["0\t0.000", "1\t2.346", "2\t5.000", "3\t0.000"]


def test_a_failed_write_leaves_no_file(tmp_path):
    with pytest.raises(IndexError):
        write_predictions(tmp_path, task("cola"), "CoLA", [7])
    assert list(tmp_path.iterdir()) == []


class _Small(torch.nn.Module):
    """Answers each row with its first token."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = torch.nn.Linear(1, 1)

    def forward(self, ids: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return ids[:, :1].float()


def test_outputs_of_several_batches_stand_in_the_order_of_the_rows():
    ids = [np.full(1 + row % 3, row) for row in range(150)]
    encoded = Encoded(ids, [len(row) for row in ids], None, pad=0, length=8)
    assert outputs(_Small(), encoded, "fp32").flatten().tolist() == list(range(150))  # type: ignore[arg-type]

"""The long table of numbers, read from folders."""

from operator import attrgetter
from pathlib import Path

import pytest

from pretend import measured
from relpos.files import write_json, write_text
from relpos.results.values import GAP, LOSS, by, read, select
from relpos.runs.run import read_record
from relpos.tables.experiment import load
from relpos.tables.plan import PlannedRow, plan_table
from tables.small_data import finish, finish_tuning, write_experiment


@pytest.fixture
def row(tmp_path: Path) -> PlannedRow:
    """A finished pre-training of `fixed` and its fine-tuning on CoLA."""
    experiment = write_experiment(
        tmp_path, rows={"fixed": ["position=fixed"]}, tasks=["cola"], seeds=[7]
    )
    (planned,) = plan_table(load(str(experiment)))
    finish(planned.pretrainings[0], {"heldout_loss": 3.0, "perplexity": 20.0, "parameters": 1000})
    finish_tuning(planned.tunings[0].run, {"cola": 40.0}, 20)
    return planned


def test_every_number_of_a_run_is_a_line(row):
    by_stage = by(read(), "stage")
    assert {value.column: value.value for value in by_stage["pretrain"]} == {
        LOSS: 3.0,
        "perplexity": 20.0,
        "parameters": 1000.0,
    }
    [loss] = select(by_stage["pretrain"], column=LOSS)
    [score] = select(by_stage["finetune"], column="cola")
    assert (score.value, score.seed, score.majority, score.examples, score.answers) == (
        40.0,
        7,
        0.0,
        20,
        None,
    )
    # A score belongs to the pre-training that it started from.
    origin = attrgetter("origin", "scale", "scheme", "rates", "pretrain_seed")
    assert origin(score) == origin(loss)


def test_a_fine_tuning_of_a_fine_tuning_belongs_to_the_same_pre_training_and_was_made_in_another_way(
    row,
):
    first = row.tunings[0].run
    second = first.path.with_name("second-0123456789ab")
    record = read_record(first.path)
    write_json(
        second / "record.json", record | {"inputs": record["inputs"] | {"start": str(first.path)}}
    )
    direct, chained = select(read(), column="cola")
    assert direct.origin == chained.origin == row.pretrainings[0].path.name
    assert direct.way != chained.way
    # the second record has the identity of the first
    assert (direct.is_current, chained.is_current) == (True, False)


def test_a_score_names_its_file_of_answers(row):
    file = row.tunings[0].run.path / "dev" / "cola.tsv"
    write_text(file, "prediction\ttarget\n1\t1\n0\t1\n")
    [score] = select(read(), column="cola")
    assert score.answers == file


def test_snapshots_are_lines_of_their_own(row):
    for percent, gap in ((50, 0.25), (100, 0.75)):
        results = {
            "shuffle_gap": {"all": gap},
            "shuffle_gap_intervals": {"all": [0.0, 1.0]},
            "heldout_loss": 3.0 + gap,
            "by_example": {"all": [gap], "predicted": [1]},
        }
        measured(row.pretrainings[0].path, "shuffle", results, examples=9, share=percent)
    values = read()
    assert {value.percent: value.value for value in select(values, column=GAP)} == {
        50: 0.25,
        100: 0.75,
    }
    # At the end the loss is that of the record, on all of the held-out text.
    assert {(value.percent, value.value) for value in select(values, column=LOSS)} == {
        (50, 3.25),
        (100, 3.0),
    }


def test_the_loss_has_the_examples_that_were_kept_with_the_gap_and_of_no_other_measure(row):
    of_each = {"loss": [6.0, 4.0], "all": [1.0, 2.0], "predicted": [2, 2], "document": [0, 0]}
    shuffled = {
        "shuffle_gap": {"all": 0.75},
        "shuffle_gap_intervals": {"all": [0.0, 1.0]},
        "heldout_loss": 2.5,
        "by_example": of_each,
    }
    of_each = {"nats": [9.0] * 3, "predicted": [2] * 3}
    mirrored = {
        "mirror_gap": 4.5,
        "mirror_gap_interval": [0.0, 9.0],
        "mirror_gap_by_example": of_each,
    }
    measured(row.pretrainings[0].path, "shuffle", shuffled, examples=2)
    measured(row.pretrainings[0].path, "mirror", mirrored, examples=2)
    [loss] = select(read(measured=("shuffle", "mirror")), column=LOSS)
    assert loss.figure is not None
    assert (loss.value, loss.figure.examples, loss.figure.documents) == (3.0, 2, [0, 0])

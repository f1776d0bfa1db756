"""Answers on the dev set: kept by fine-tuning, used where there are several pre-trainings."""

from dataclasses import replace

import numpy as np
import pytest

from pretend import bare
from relpos.errors import RelposError
from relpos.results.statistics import Interval
from relpos.results.values import answers, select
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.rows import interval_of_answers, rows_of, values_of
from relpos.train.finetune import write_answers
from tables.small_data import finish_tuning

RIGHT = np.tile([0.0, 1.0], 100)


def with_errors(share: float, seed: int) -> np.ndarray:
    """Classes of which this share is wrong."""
    wrong = np.random.default_rng(seed).random(200) < share
    return np.where(wrong, 1 - RIGHT, RIGHT)


def tunings(shares: dict[int, float], kept: bool = True) -> list[Tuning]:
    """Two fine-tunings of each pre-training."""
    finetunings = []
    for pretrain_seed, share in shares.items():
        for seed in (0, 1):
            task = {"task": {"columns": ["rte"], "metric": "relpos.train.metrics.accuracy"}}
            run = bare(
                "finetune",
                "rte",
                {"p": pretrain_seed, "seed": seed} | task,
                task,
                {"start": bare("pretrain", "x", {}, {})},
            )
            predictions = with_errors(share, 10 * pretrain_seed + seed)
            columns = {"rte": float(100 * np.mean(predictions == RIGHT))}
            finish_tuning(run, columns, 200, 50.0)
            if kept:
                write_answers(run.path / "dev" / "rte.tsv", predictions, RIGHT)
            finetunings.append(Tuning("rte", pretrain_seed, seed, run))
    return finetunings


def interval(finetunings: list[Tuning]) -> Interval | None:
    return interval_of_answers(
        select(values_of(PlannedRow("x", [], [], finetunings)), column="rte")
    )


def test_answers_are_read_as_they_were_written(tmp_path):
    write_answers(tmp_path / "dev" / "stsb.tsv", [0.123456789, -1.0], [2.5, 5.0])
    assert answers(tmp_path / "dev" / "stsb.tsv").tolist() == [[0.123456789, 2.5], [-1.0, 5.0]]


def test_interval_over_seeds_and_examples():
    low, high = interval(tunings({0: 0.2, 1: 0.3, 2: 0.4}))
    assert low < 70 < high
    examples_alone = 1.96 * 100 * np.sqrt(0.7 * 0.3 / 200 / 6)
    assert high - low > 2.5 * examples_alone  # pre-trainings differ by more


def test_without_answers_the_pre_trainings_alone_count():
    assert interval(tunings({0: 0.2, 1: 0.4}, kept=False)) is None
    pretraining = bare("pretrain", "x", {}, {"seed": 0})
    column = rows_of(
        [PlannedRow("x", [], [pretraining] * 2, tunings({2: 0.1, 3: 0.5}, kept=False))]
    )[0].columns["rte"]
    means = [np.mean(column.values[part]) for part in (slice(2), slice(2, None))]
    assert column.interval == (pytest.approx(min(means)), pytest.approx(max(means)))


def test_one_pre_training_has_no_interval_of_answers():
    assert interval(tunings({0: 0.2})) is None


@pytest.mark.parametrize(
    "content",
    [b"prediction\ttarget\n", b"prediction\ttarget\n1\t0\n1", b"prediction\ttarget\n1\t\xff\n"],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_answers_that_are_damaged_are_named(content, tmp_path):
    path = tmp_path / "rte.tsv"
    path.write_bytes(content)
    with pytest.raises(RelposError, match="rte.tsv: damaged"):
        answers(path)


def test_a_draw_of_which_the_metric_is_not_a_number_counts_as_0(tmp_path, monkeypatch):
    monkeypatch.setenv("RELPOS_TRUST", "no_number")
    (tmp_path / "no_number.py").write_text(
        "def never(predictions, targets):\n    return float('nan')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    values = select(values_of(PlannedRow("x", [], [], tunings({0: 0.2, 1: 0.4}))), column="rte")
    assert interval_of_answers([replace(value, metric="no_number.never") for value in values]) == (
        0.0,
        0.0,
    )

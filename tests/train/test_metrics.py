"""The columns of GLUE against scikit-learn and scipy, and what a constant prediction scores."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from scipy import stats
from sklearn import metrics as oracle

from glue_tasks import NAMES, task
from relpos.data.tasks import Task
from relpos.errors import RelposError
from relpos.train import metrics
from relpos.trust import trust

quick = settings(deadline=None, max_examples=60)
Pair = tuple[list[Any], list[Any]]


@st.composite
def classes(draw: DrawFn, count: int = 2) -> Pair:
    n = draw(st.integers(1, 40))
    side = st.lists(st.integers(0, count - 1), min_size=n, max_size=n)
    return draw(side), draw(side)


@st.composite
def values(draw: DrawFn) -> Pair:
    n = draw(st.integers(2, 40))
    number = st.one_of(
        st.integers(0, 5).map(float), st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
    )
    side = st.lists(number, min_size=n, max_size=n)
    return draw(side), draw(side)


@quick
@given(classes(3))
def test_accuracy_is_scikit_learns(pair):
    assert metrics.accuracy(*pair) == pytest.approx(oracle.accuracy_score(pair[1], pair[0]))


@quick
@given(classes())
def test_f1_is_scikit_learns(pair):
    assert metrics.f1(*pair) == pytest.approx(oracle.f1_score(pair[1], pair[0], zero_division=0.0))


@quick
@given(classes())
def test_matthews_is_scikit_learns(pair):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of a single class
        expected = oracle.matthews_corrcoef(pair[1], pair[0])
    assert metrics.matthews(*pair) == pytest.approx(expected, abs=1e-12)


@quick
@given(values())
def test_correlations_are_scipys(pair):
    if np.ptp(pair[0]) == 0 or np.ptp(pair[1]) == 0:
        assert metrics.pearson_and_spearman(*pair) == 0.0
        return
    assert metrics.pearson(*pair) == pytest.approx(stats.pearsonr(*pair).statistic, abs=1e-9)
    assert metrics.spearman(*pair) == pytest.approx(stats.spearmanr(*pair).statistic, abs=1e-9)


def test_two_metric_columns_are_means():
    p, t = [1, 1, 0, 1], [1, 0, 0, 1]
    assert metrics.accuracy_and_f1(p, t) == pytest.approx((0.75 + 0.8) / 2)
    x, y = [0.0, 1.0, 5.0], [0.0, 2.0, 3.0]
    assert metrics.pearson_and_spearman(x, y) == pytest.approx(
        (stats.pearsonr(x, y).statistic + 1) / 2
    )


@pytest.mark.parametrize("constant", [0.1, 0.0, 3.3333333, 1e8])
def test_constant_predictions_score_nothing(constant):
    targets = [0.1, 0.7, 4.2, 5.0] * 25
    assert metrics.score(task("stsb"), [constant] * 100, targets) == 0.0
    assert metrics.score(task("cola"), [1] * 100, [1, 0] * 50) == 0.0


def test_predictions_that_are_not_finite_score_nothing():
    assert metrics.score(task("stsb"), [1.0, float("nan"), 2.0], [1.0, 2.0, 3.0]) == 0.0


def test_large_values_lose_no_precision():
    x = 1e4 + np.linspace(0, 1, 50)
    assert metrics.pearson(x, np.linspace(0, 1, 50)) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_every_task_scores_a_hundred_when_all_is_right(name):
    targets = [0.0, 1.0, 1.0, 0.0, 1.0]
    assert metrics.score(task(name), targets, targets) == pytest.approx(100.0)


def test_majority_of_real_counts():
    assert metrics.majority(task("mrpc"), [1] * 279 + [0] * 129) == pytest.approx(
        (68.382 + 81.223) / 2, abs=1e-3
    )
    assert metrics.majority(task("wnli"), [0] * 40 + [1] * 31) == pytest.approx(56.338, abs=1e-3)
    assert metrics.majority(task("cola"), [1] * 721 + [0] * 322) == 0.0
    assert metrics.majority(task("stsb"), [1.0, 2.0, 2.0]) == 0.0


def test_a_class_has_precision_recall_and_the_answers_given_in_its_place():
    classes = metrics.by_class(task("mnli"), [0, 0, 1, 0, 2], [0, 1, 1, 1, 1])
    first, second, third = task("mnli").labels or ()
    assert classes[first] == {
        "precision": pytest.approx(100 / 3),
        "recall": 100.0,
        "answers": {first: 1},
    }
    assert classes[second] == {
        "precision": 100.0,
        "recall": 25.0,
        "answers": {first: 2, second: 1, third: 1},
    }
    assert classes[third] == {"precision": 0.0, "recall": 0.0, "answers": {}}
    assert metrics.by_class(task("stsb"), [0.5], [1.0]) == {}


def test_decisions_are_classes_or_values():
    assert metrics.decide(
        task("mnli"), torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    ).tolist() == [1.0, 0.0]
    values = metrics.decide(task("stsb"), torch.tensor([[0.5], [4.5]], dtype=torch.bfloat16))
    assert values.tolist() == [0.5, 4.5]
    assert values.dtype == np.float64


def test_a_metric_of_the_users_own_is_named_by_its_module():
    trust("sklearn.metrics")
    other = Task(**{**vars(task("cola")), "metric": "sklearn.metrics.accuracy_score"})
    assert metrics.score(other, [1, 0], [1, 1]) == pytest.approx(50.0)


@pytest.mark.filterwarnings("ignore:.*input array is constant")
def test_a_metric_of_the_users_own_that_is_not_a_number_counts_as_nothing(tmp_path, monkeypatch):
    text = "from scipy.stats import pearsonr\n\ndef linear(p, t):\n    return pearsonr(p, t).statistic\n"
    (tmp_path / "correlating.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    trust("correlating")
    assert metrics.applied("correlating.linear", "metric", [1, 1, 1], [1, 2, 3]) == 0.0


@pytest.mark.parametrize(
    "name",
    ["matthews", "relpos.train.metrics.mathews", "relpos.train.metrics.Task", "no.such.module"],
)
def test_a_wrong_metric_is_one_line(name):
    with pytest.raises(RelposError, match=f"^task cola: metric.*{name}"):
        metrics.score(Task(**{**vars(task("cola")), "metric": name}), [1], [1])


def test_constant_answers_of_many_numbers_are_few(monkeypatch):
    asked: list[float] = []
    monkeypatch.setattr(
        metrics, "score", lambda task, predictions, *_: asked.append(predictions[0]) or 0.0
    )
    metrics.majority(task("stsb"), [number / 1000 for number in range(5000)])
    assert len(asked) == metrics.CONSTANTS
    asked.clear()
    metrics.majority(task("stsb"), [3.0, 1.0, 2.0, 1.0])
    assert sorted(asked) == [1.0, 2.0, 3.0]

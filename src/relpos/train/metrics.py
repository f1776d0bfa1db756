"""The columns of GLUE, on all predictions at once in float64.

A constant prediction scores 0 in Matthews and in correlations (GLUE's practice), and so do
predictions that are not finite.

torchmetrics, which Lightning brings, has other values (1.9): accuracy, F1 and Matthews in float32,
two thirds as 0.66666669; for a constant prediction a Matthews correlation of 0.02 to 0.41; and 10⁻⁶
in the denominator of Spearman's, 0.9999985 for equal ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from relpos.data.tasks import Task
from relpos.trust import find

Floats = NDArray[np.float64]
CONSTANTS = 100
"""So many values of a regression are tried as constant answers: with each of many thousands the
time would be their square."""


def accuracy(predictions: ArrayLike, targets: ArrayLike) -> float:
    """Share of equal entries."""
    p, t = _pair(predictions, targets)
    return float(np.mean(p == t))


def f1(predictions: ArrayLike, targets: ArrayLike) -> float:
    """2 TP / (2 TP + FP + FN) of class 1; 0 where class 1 is neither among the targets nor
    predicted."""
    p, t = (array == 1 for array in _pair(predictions, targets))
    return float(2 * np.sum(p & t) / max(1, np.sum(p) + np.sum(t)))


def accuracy_and_f1(predictions: ArrayLike, targets: ArrayLike) -> float:
    """(accuracy + F1) / 2: the column of MRPC and QQP."""
    return (accuracy(predictions, targets) + f1(predictions, targets)) / 2


def matthews(predictions: ArrayLike, targets: ArrayLike) -> float:
    """Matthews correlation of two classes = Pearson correlation of the 0/1 vectors: the column of
    CoLA."""
    return pearson(predictions, targets)


def pearson(predictions: ArrayLike, targets: ArrayLike) -> float:
    """Linear correlation; 0 where either side is constant or not finite."""
    pair = np.stack(_pair(predictions, targets))
    # Checked before centring: the mean of equal numbers may differ from them in its last bit.
    if not np.isfinite(pair).all() or not np.ptp(pair, axis=1).all():
        return 0.0
    return float(np.asarray(np.corrcoef(pair))[0, 1])


def spearman(predictions: ArrayLike, targets: ArrayLike) -> float:
    """Pearson correlation of the ranks, ties sharing their mean rank; 0 where either side is
    constant or not finite."""
    pair = np.stack(_pair(predictions, targets))
    # Checked here, because ranks are always finite: NaN would be sorted behind all numbers.
    if not np.isfinite(pair).all():
        return 0.0
    from scipy.stats import rankdata  # half a second

    return pearson(*rankdata(pair, axis=1))


def pearson_and_spearman(predictions: ArrayLike, targets: ArrayLike) -> float:
    """(Pearson + Spearman) / 2: the column of STS-B."""
    return (pearson(predictions, targets) + spearman(predictions, targets)) / 2


def decide(task: Task, outputs: Tensor) -> Floats:
    """Outputs of the classifier (rows, task.outputs) to predictions (rows,): the class, or a
    regression's value."""
    decided = outputs.squeeze(-1) if task.regression else outputs.argmax(-1)
    return decided.detach().double().cpu().numpy()


def score(task: Task, predictions: ArrayLike, targets: ArrayLike) -> float:
    """The task's column, x 100."""
    return 100 * applied(task.metric, f"task {task.name}: metric", predictions, targets)


def by_class(
    task: Task,
    predictions: ArrayLike,
    targets: ArrayLike,
) -> dict[str, dict[str, object]]:
    """Label → its precision and recall, x 100, and the answers where it is right: answered label →
    how often. Precision is 0 for a label that is never answered, recall for one that is never
    right; empty for a regression."""
    labels, classes = task.labels or (), {}
    given, right = _pair(predictions, targets)
    for number, label in enumerate(labels):
        answers = given[right == number]
        hits = 100 * np.sum(answers == number)
        counts = {answer: int(np.sum(answers == other)) for other, answer in enumerate(labels)}
        classes[label] = {
            "precision": float(hits / max(1, np.sum(given == number))),
            "recall": float(hits / max(1, len(answers))),
            "answers": {answer: count for answer, count in counts.items() if count},
        }
    return classes


def majority(task: Task, targets: Sequence[int] | Sequence[float]) -> float:
    """The column, x 100, of the best constant answer: the majority class, where accuracy alone
    counts; of a regression with many values the best of `CONSTANTS`, spread evenly over them."""
    values = np.unique(targets)
    if task.regression:
        count = min(len(values), CONSTANTS)
        places = np.linspace(0, len(values) - 1, count).round().astype(int)
        values = values[np.unique(places)]
    return max(score(task, np.full(len(targets), value), targets) for value in values)


def applied(name: str, key: str, predictions: ArrayLike, targets: ArrayLike) -> float:
    """A metric by its dotted name; 0 where it is not a number, as scipy's correlation of a constant
    answer.

    Raises:
        RelposError: begins with `key`: there is no such metric.
    """
    value = float(find(name, "metric", key)(predictions, targets))
    return value if np.isfinite(value) else 0.0


def _pair(predictions: ArrayLike, targets: ArrayLike) -> tuple[Floats, Floats]:
    return np.asarray(predictions, dtype=np.float64), np.asarray(targets, dtype=np.float64)

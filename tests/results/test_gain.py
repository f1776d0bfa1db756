"""The text of a difference between two rows, beside its error over pre-trainings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from relpos.measures.measure import Figure
from relpos.results.gain import digits, gain
from relpos.results.scale import Scale, pretraining_scale
from relpos.results.values import Value

MEANING = {"size": {"layers": 2, "hidden": 8, "ffn": 16}, "steps": 9, "batch": 2, "length": 128}
PREDICTED = [3.0, 5.0, 4.0, 4.0]


def two_rows(documents: list[float] | None = None) -> Scale:
    """Two rows of two pre-trainings; `fixed` is better by 1 nat a token in the first two examples,
    and by 2 in the others."""
    scale = pretraining_scale(MEANING, "files-0")
    for row, nats in {"fixed": [1.0, 1.0, 1.0, 1.0], "none": [2.0, 2.0, 3.0, 3.0]}.items():
        parts = np.array([np.multiply(nats, PREDICTED), PREDICTED])
        figure = Figure(float(parts[0].sum() / parts[1].sum()), parts=parts, documents=documents)
        values = [
            Value(
                Path(),
                "pretrain",
                "loss",
                -figure.value - 0.01 * seed,
                pretrain_seed=seed,
                figure=figure,
            )
            for seed in (0, 1)
        ]
        scale.values[row] = {"loss": values}
    return scale


@pytest.mark.parametrize(
    ("documents", "over"),
    [(None, "4 held-out examples"), ([0.0, 0.0, 1.0, 1.0], "2 held-out documents")],
)
def test_a_difference_says_how_much_other_held_out_text_would_change_it(documents, over):
    difference = gain(two_rows(documents), ("fixed", "none"), "loss")
    assert difference is not None
    half = {
        None: 3.182 * np.sqrt(4 / 3 * (9 + 25 + 16 + 16) * 0.25) / 16,
        0.0: 12.706 * np.sqrt(2 * 2 * 16) / 16,
    }
    assert difference.text.endswith(
        f" nats of held-out loss less; ±{half[documents[0] if documents else None]:.3f} over {over}"
    )


def test_documents_count_whichever_network_has_kept_them():
    scale = two_rows([0.0, 0.0, 1.0, 1.0])
    older = scale.values["fixed"]["loss"][0]
    assert older.figure is not None
    scale.values["fixed"]["loss"][0] = replace(older, figure=replace(older.figure, documents=None))
    gains = gain(scale, ("fixed", "none"), "loss"), gain(scale, ("none", "fixed"), "loss")
    assert all(
        difference is not None and difference.text.endswith("over 2 held-out documents")
        for difference in gains
    )


def test_losses_on_different_examples_give_no_error_over_examples():
    scale = two_rows()
    value = replace(scale.values["none"]["loss"][0], figure=Figure(1.0, parts=np.ones((2, 4))))
    scale.values["none"]["loss"] = [value, scale.values["none"]["loss"][1]]
    difference = gain(scale, ("fixed", "none"), "loss")
    assert difference is not None
    assert "held-out examples" not in difference.text


def test_differences_in_nats_have_three_decimals():
    assert [digits(column) for column in ("loss", "shuffle_gap", "same_word_pairs", "cola")] == [
        3,
        3,
        1,
        1,
    ]


def test_a_column_without_a_lead_over_an_untrained_network_says_nothing():
    def scores(column, *by_seed):
        return [
            Value(
                Path(),
                "finetune",
                column,
                score,
                metric="accuracy",
                majority=50.0,
                examples=2000,
                pretrain_seed=seed,
            )
            for seed, score in enumerate(by_seed)
        ]

    scale = pretraining_scale(MEANING, "files-0")
    for row, lead in {"fixed": 6.0, "none": 5.0}.items():
        scale.values[row] = {
            "sst2": scores("sst2", 70 + lead, 70.5 + lead),
            "qnli": scores("qnli", 60 + lead, 60.5 + lead),
        }
    assert gain(scale, ("fixed", "none")).columns == ("qnli", "sst2")
    scale.untrained = {"sst2": scores("sst2", 70, 70.6), "qnli": scores("qnli", 66, 66.6)}
    assert gain(scale, ("fixed", "none")).columns == ("sst2",)
    scale.untrained["sst2"] = scores("sst2", 76, 76.6)
    no_columns = gain(scale, ("fixed", "none"))
    assert no_columns.columns == ()
    assert no_columns.text.endswith("not pre-trained in qnli, sst2")

"""What is said of a difference between two rows beside its error over pre-trainings."""

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


def scale(documents: list[float] | None = None) -> Scale:
    """Two rows of two pre-trainings; `fixed` is better by 1 nat a token in the first two examples,
    and by 2 in the others."""
    found = pretraining_scale(MEANING, "files-0")
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
        found.values[row] = {"loss": values}
    return found


@pytest.mark.parametrize(
    ("documents", "over"),
    [(None, "4 held-out examples"), ([0.0, 0.0, 1.0, 1.0], "2 held-out documents")],
)
def test_a_difference_says_how_much_other_held_out_text_would_change_it(documents, over):
    found = gain(scale(documents), ("fixed", "none"), "loss")
    assert found is not None
    half = {
        None: 3.182 * np.sqrt(4 / 3 * (9 + 25 + 16 + 16) * 0.25) / 16,
        0.0: 12.706 * np.sqrt(2 * 2 * 16) / 16,
    }
    assert found.text.endswith(
        f" nats of held-out loss less; ±{half[documents[0] if documents else None]:.3f} over {over}"
    )


def test_documents_count_whichever_network_has_kept_them():
    found = scale([0.0, 0.0, 1.0, 1.0])
    older = found.values["fixed"]["loss"][0]
    assert older.figure is not None
    found.values["fixed"]["loss"][0] = replace(older, figure=replace(older.figure, documents=None))
    said = gain(found, ("fixed", "none"), "loss"), gain(found, ("none", "fixed"), "loss")
    assert all(
        each is not None and each.text.endswith("over 2 held-out documents") for each in said
    )


def test_losses_of_other_examples_say_nothing_of_it():
    one = scale()
    others = replace(one.values["none"]["loss"][0], figure=Figure(1.0, parts=np.ones((2, 4))))
    one.values["none"]["loss"] = [others, one.values["none"]["loss"][1]]
    found = gain(one, ("fixed", "none"), "loss")
    assert found is not None
    assert "held-out examples" not in found.text


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

    found = pretraining_scale(MEANING, "files-0")
    for row, lead in {"fixed": 6.0, "none": 5.0}.items():
        found.values[row] = {
            "sst2": scores("sst2", 70 + lead, 70.5 + lead),
            "qnli": scores("qnli", 60 + lead, 60.5 + lead),
        }
    assert gain(found, ("fixed", "none")).columns == ("qnli", "sst2")
    found.untrained = {"sst2": scores("sst2", 70, 70.6), "qnli": scores("qnli", 66, 66.6)}
    assert gain(found, ("fixed", "none")).columns == ("sst2",)
    found.untrained["sst2"] = scores("sst2", 76, 76.6)
    nothing = gain(found, ("fixed", "none"))
    assert nothing.columns == ()
    assert nothing.text.endswith("not pre-trained in qnli, sst2")

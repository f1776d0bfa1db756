"""The mirror gap: 0 for networks that see distances alone, and a column of a table."""

from pathlib import Path

import pytest

import relpos
from linked import pretrained
from relpos.analysis.shuffle_gap import MIRROR, mirror_gap, shuffle_gap
from relpos.data.store import Store
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.measures.kept import kept
from relpos.measures.measure import measured_columns
from relpos.model.heads import MaskedLM
from relpos.results.contrast import SAME
from schemes import model_of


def network(tokenizer: Tokenizer, position: str) -> MaskedLM:
    """Random weights, away from zero, in float32, over the tokenizer's vocabulary."""
    return model_of(position, vocabulary=tokenizer.size, max_positions=64).float()


@pytest.mark.parametrize("packing", ["pair", "document"])
@pytest.mark.parametrize("position", ["none", "alibi", "fire", "kerple", "kerple_power"])
def test_the_gap_of_distances_alone_is_zero(tokenizer: Tokenizer, store: Store, position: str, packing: str) -> None:
    found = mirror_gap(network(tokenizer, position), store.examples("heldout", packing, 64, 40))
    assert abs(found.gaps[MIRROR]) < SAME  # tables take such rows for constant
    assert abs(found.differences[MIRROR]).max() <= 1e-4
    assert found.loss > 1


@pytest.mark.parametrize("position", ["absolute", "fixed", "rope", "t5"])
def test_that_of_directions_is_not(tokenizer: Tokenizer, store: Store, position: str) -> None:
    found = mirror_gap(network(tokenizer, position), store.examples("heldout", "pair", 64, 40))
    assert abs(found.differences[MIRROR]).max() > 0.05


def test_distance_is_order_but_no_direction(tokenizer: Tokenizer, store: Store) -> None:
    model, examples = network(tokenizer, "alibi"), store.examples("heldout", "pair", 64, 40)
    shuffled, reversed_rows = shuffle_gap(model, examples, Words(tokenizer)), mirror_gap(model, examples)
    assert abs(shuffled.differences["all"]).max() > 0.02
    assert abs(reversed_rows.differences[MIRROR]).max() < 1e-4
    assert reversed_rows.loss == shuffled.loss


def test_relpos_order_measures_it_and_tables_have_its_column(prepared: Path, tmp_path: Path) -> None:
    runs = pretrained(prepared, tmp_path, {name: [f"position={name}"] for name in ("alibi", "absolute")})
    blind, seeing = relpos.order(*runs.values(), overrides=["measure=mirror", "examples=20"])["rows"]
    assert abs(blind["mirror_gap"]) <= 1e-5
    assert set(seeing) == {"name", "folder", "mirror_gap", "mirror_gap_interval"}
    measure, column = measured_columns()["mirror_gap"]
    (entry,) = kept(runs["absolute"], "mirror")
    figure = measure.figure(column.name, entry.results)
    assert figure is not None
    assert figure.interval is not None
    assert figure.parts is not None
    assert figure.value == seeing["mirror_gap"] == pytest.approx(figure.parts[0].sum() / figure.parts[1].sum(), abs=1e-4)
    assert figure.interval[0] < figure.value < figure.interval[1]
    assert figure.documents is not None
    assert len(figure.documents) == len(entry.results["mirror_gap_by_example"]["nats"])

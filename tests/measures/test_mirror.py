"""The mirror gap: 0 for networks that see distances alone, and a column of a table."""

import pytest

from relpos.analysis.shuffle_gap import MIRROR, MIRRORED, gaps, shuffled
from relpos.data.store import Store
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.model.heads import MaskedLM
from relpos.results.contrast import SAME
from schemes import model_of


def network(tokenizer: Tokenizer, position: str) -> MaskedLM:
    """Random weights, away from zero, in float32, over the tokenizer's vocabulary."""
    return model_of(position, vocabulary=tokenizer.size, max_positions=64).float()


@pytest.mark.parametrize("packing", ["pair", "document"])
@pytest.mark.parametrize("position", ["none", "alibi", "fire", "kerple", "kerple_power"])
def test_the_gap_of_distances_alone_is_zero(tokenizer: Tokenizer, store: Store, position: str, packing: str) -> None:
    found = gaps(network(tokenizer, position), store.examples("heldout", packing, 64, 40), MIRRORED)
    assert abs(found.gaps[MIRROR]) < SAME  # tables take such rows for constant
    assert abs(found.differences[MIRROR]).max() <= 1e-4
    assert found.loss > 1


@pytest.mark.parametrize("position", ["absolute", "fixed", "rope", "t5"])
def test_that_of_directions_is_not(tokenizer: Tokenizer, store: Store, position: str) -> None:
    found = gaps(network(tokenizer, position), store.examples("heldout", "pair", 64, 40), MIRRORED)
    assert abs(found.differences[MIRROR]).max() > 0.05


def test_distance_is_order_but_no_direction(tokenizer: Tokenizer, store: Store) -> None:
    model, examples = network(tokenizer, "alibi"), store.examples("heldout", "pair", 64, 40)
    in_random_order, reversed_rows = gaps(model, examples, shuffled(Words(tokenizer))), gaps(model, examples, MIRRORED)
    assert abs(in_random_order.differences["all"]).max() > 0.02
    assert abs(reversed_rows.differences[MIRROR]).max() < 1e-4
    assert reversed_rows.loss == in_random_order.loss

"""Gaps of text in another order: 0 for networks that see distances alone, at every share of tokens
that are masked."""

from typing import Any

import pytest
import torch

from relpos.analysis.shuffle_gap import ALL, MIRROR, MIRRORED, Change, gaps, shuffled
from relpos.data.objective import IGNORED, Masked
from relpos.data.steps import heldout_batches
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.measures.kinds.masking import RATES
from relpos.model.heads import MaskedLM
from relpos.results.contrast import SAME
from schemes import model_of


def network(tokenizer: Tokenizer, position: str = "none", **keys: Any) -> MaskedLM:
    """Random weights, away from zero, in float32, over the tokenizer's vocabulary."""
    return model_of(position, vocabulary=tokenizer.size, max_positions=64, **keys).float().eval()


@pytest.mark.parametrize("packing", ["pair", "document"])
@pytest.mark.parametrize("position", ["none", "alibi", "fire", "kerple", "kerple_power"])
def test_the_mirror_gap_of_distances_alone_is_zero(tokenizer, store, position, packing):
    gap = gaps(network(tokenizer, position), store.examples("heldout", packing, 64, 40), MIRRORED)
    assert abs(gap.gaps[MIRROR]) < SAME  # tables take such rows for constant
    assert abs(gap.differences[MIRROR]).max() <= 1e-4
    assert gap.loss > 1


@pytest.fixture
def changes(tokenizer: Tokenizer) -> dict[str, Change]:
    """All that is done to a text."""
    return shuffled(Words(tokenizer)) | MIRRORED


@pytest.mark.parametrize("position", ["absolute", "fixed", "rope", "t5"])
def test_the_mirror_gap_of_directions_is_not_zero(tokenizer, store, position):
    gap = gaps(network(tokenizer, position), store.examples("heldout", "pair", 64, 40), MIRRORED)
    assert abs(gap.differences[MIRROR]).max() > 0.05


def test_distances_tell_order_and_no_direction(tokenizer, store, changes):
    gap = gaps(network(tokenizer, "alibi"), store.examples("heldout", "pair", 64, 40), changes)
    assert abs(gap.differences[ALL]).max() > 0.02
    assert abs(gap.differences[MIRROR]).max() < 1e-4


def test_gaps_mask_fifteen_per_cent_by_default(tokenizer, store, changes):
    inputs = network(tokenizer, "absolute"), store.examples("heldout", "pair", 64, 12), changes
    gap, expected = gaps(*inputs, objective=Masked(0.15, 0.15)), gaps(*inputs)
    assert (gap.loss, gap.gaps) == (expected.loss, expected.gaps)


def test_without_positions_there_is_no_gap_at_any_rate(tokenizer, store, changes):
    model, examples = network(tokenizer, "none"), store.examples("heldout", "pair", 64, 12)
    assert list(changes) == ["2", "3", "4", "8", "all", "mirror"]
    for rate in RATES:
        result = gaps(model, examples, changes, objective=Masked(rate / 100, rate / 100))
        assert max(abs(gap) for gap in result.gaps.values()) <= 1e-5


def test_tokens_masked_at_one_rate_are_masked_at_a_higher_rate(tokenizer, store):
    examples = store.examples("heldout", "pair", 64, 40)
    fewer, more = (
        next(heldout_batches(examples, 32, tokenizer.size, objective=Masked(rate, rate)))
        for rate in (0.3, 0.8)
    )
    chosen = fewer.labels != IGNORED
    assert torch.equal(more.labels[chosen], fewer.labels[chosen])
    assert torch.equal(more.input_ids[chosen], fewer.input_ids[chosen])
    text = examples.lengths(torch.arange(40)).sum().item() - 3 * 40
    assert (more.labels != IGNORED).sum().item() / text == pytest.approx(0.8, abs=0.05)

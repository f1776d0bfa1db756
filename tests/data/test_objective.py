"""Diffusion's masks: a rate for each row, and weights by which each rate counts alike."""

import torch

from relpos.data.masking import IGNORED
from relpos.data.objective import LEAST, diffused
from relpos.data.tokenizer import CLS, MASK, PAD, SEP

IDS = torch.randint(5, 500, (3000, 66), generator=torch.Generator().manual_seed(0))
IDS[:, 0], IDS[:, -1] = CLS, SEP
LENGTHS, KEYS = torch.full((3000,), 66), torch.arange(3000)


def test_rates_are_uniform_and_rows_have_them() -> None:
    _, labels, weights = diffused(IDS, LENGTHS, KEYS, 7, 500)
    assert weights is not None
    rates = 1 / weights.double()
    assert rates.min() >= LEAST
    assert rates.max() <= 1
    torch.testing.assert_close(rates.sort().values, torch.linspace(0, 1, 3000).double(), atol=0.03, rtol=0)
    share = (labels != IGNORED).double().sum(1) / 64
    assert (share - rates).abs().max() < 0.3
    assert abs((share - rates).mean()) < 0.005


def test_weighted_counts_are_the_tokens_of_text_on_average() -> None:
    _, labels, weights = diffused(IDS, LENGTHS, KEYS, 7, 500)
    assert weights is not None
    assert abs(((labels != IGNORED).sum(1) * weights).mean() / 64 - 1) < 0.05


def test_every_chosen_token_is_masked_and_nothing_else_changes() -> None:
    seen, labels, _ = diffused(IDS, LENGTHS, KEYS, 7, 500)
    chosen = labels != IGNORED
    assert bool((seen[chosen] == MASK).all())
    assert torch.equal(labels[chosen], IDS[chosen])
    assert torch.equal(seen[~chosen], IDS[~chosen])
    assert not bool(chosen[:, [0, -1]].any())


def test_masks_do_not_depend_on_the_row_or_the_padding() -> None:
    some = torch.tensor([9, 4, 77])
    wide = torch.nn.functional.pad(IDS[some], (0, 6), value=PAD)
    alone, among = diffused(wide, LENGTHS[some], KEYS[some], 7, 500), diffused(IDS, LENGTHS, KEYS, 7, 500)
    assert alone.weights is not None
    assert among.weights is not None
    assert torch.equal(alone.input_ids[:, :66], among.input_ids[some])
    assert torch.equal(alone.weights, among.weights[some])
    assert not torch.equal(among.input_ids, diffused(IDS, LENGTHS, KEYS, 8, 500).input_ids)

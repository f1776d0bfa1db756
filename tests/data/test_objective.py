"""What recipe.masking names: BERT's masks at one rate or at that of the step, diffusion's with a
rate for each row, and answers."""

from typing import Any

import numpy as np
import pytest
import torch

from relpos.data.objective import (
    IGNORED,
    LEAST,
    ByRecipe,
    Masking,
    Objective,
    Predicted,
    Unmasked,
    diffused,
    masked,
)
from relpos.data.tokenizer import CLS, MASK, PAD, SEP

IDS = torch.randint(5, 500, (3000, 66), generator=torch.Generator().manual_seed(0))
IDS[:, 0], IDS[:, -1] = CLS, SEP
LENGTHS, KEYS = torch.full((3000,), 66), torch.arange(3000)


def masks(masking: Masking, steps: int = 1) -> Objective:
    return ByRecipe(masking, steps).on(causal=False)


def applied(objective: Objective, seed: int = 7, **options: int) -> Predicted:
    return objective.of(Unmasked(IDS, LENGTHS, KEYS, seed, 500, **options))


def test_rates_are_uniform_and_rows_are_masked_at_them():
    _, labels, weights = applied(diffused)
    assert weights is not None
    rates = 1 / weights.double()
    assert rates.min() >= LEAST
    assert rates.max() <= 1
    torch.testing.assert_close(
        rates.sort().values, torch.linspace(0, 1, 3000).double(), atol=0.03, rtol=0
    )
    share = (labels != IGNORED).double().sum(1) / 64
    assert (share - rates).abs().max() < 0.3
    assert abs((share - rates).mean()) < 0.005


def test_uniform_masks_are_those_of_diffusion_without_weights():
    uniform, weighted = applied(masks("uniform")), applied(diffused)
    assert uniform.weights is None
    assert torch.equal(uniform.input_ids, weighted.input_ids)
    assert torch.equal(uniform.labels, weighted.labels)


def test_every_chosen_token_is_masked_and_nothing_else_changes():
    input_ids, labels, _ = applied(diffused)
    chosen = labels != IGNORED
    assert bool((input_ids[chosen] == MASK).all())
    assert torch.equal(labels[chosen], IDS[chosen])
    assert torch.equal(input_ids[~chosen], IDS[~chosen])
    assert not bool(chosen[:, [0, -1]].any())


def test_objectives_do_not_depend_on_the_row_or_the_padding():
    rows = torch.tensor([9, 4, 77])
    wide = torch.nn.functional.pad(IDS[rows], (0, 6), value=PAD)
    part = diffused.of(Unmasked(wide, LENGTHS[rows], KEYS[rows], 7, 500))
    whole = applied(diffused)
    assert part.weights is not None
    assert whole.weights is not None
    assert torch.equal(part.input_ids[:, :66], whole.input_ids[rows])
    assert torch.equal(part.weights, whole.weights[rows])
    assert not torch.equal(whole.input_ids, applied(diffused, 8).input_ids)


def test_a_masking_number_is_the_share_of_chosen_tokens():
    assert masks("bert") is masked
    before = torch.zeros_like(IDS, dtype=torch.bool)
    for rate in (0.05, 0.3, 0.5):
        _, labels, weights = applied(masks(rate))
        chosen = labels != IGNORED
        assert weights is None
        assert abs(chosen[:, 1:-1].double().mean() - rate) < 0.005
        assert not bool((before & ~chosen).any())
        before = chosen


def chosen_at(step: int, masking: Any, steps: int = 12) -> torch.Tensor:
    """(3000, 66) which tokens are predicted at a step of a training of `steps`."""
    return applied(masks(masking, steps), step=step).labels != IGNORED


@pytest.mark.parametrize(("first", "last"), [(0.3, 0.15), (0.15, 0.6), (0.4, 0.4)])
def test_the_rate_goes_from_the_first_linearly_to_the_last(first, last):
    rates = np.linspace(first, last, 13)  # after 12 steps there would be the last
    shares = [float(chosen_at(step, [first, last]).double().mean()) * 66 / 64 for step in range(12)]
    np.testing.assert_allclose(shares, rates[:12], atol=4 * np.sqrt(0.25 / (3000 * 64)))


def test_tokens_chosen_at_a_rate_are_chosen_at_a_higher_one():
    few, many = chosen_at(11, [0.3, 0.15]), chosen_at(0, [0.3, 0.15])
    assert bool((many | ~few).all())
    assert torch.equal(many, chosen_at(5, 0.3))


@pytest.mark.parametrize("masking", ["bert", 0.15, [0.15, 0.15]])
def test_berts_masks_have_three_names(masking):
    assert torch.equal(chosen_at(7, masking), applied(masked).labels != IGNORED)


@pytest.mark.parametrize("batch", [40, 100])
def test_the_loss_of_a_diffusion_step_is_biased_as_a_ratio_of_means_is(batch):
    """With the loss t of a token at rate t the mean over all rates is 1/2, the bias to first order
    (ln(1/ε) - 2) / (2 · tokens)."""
    rows = 200_000
    ids = torch.full((rows, 8), 9)
    rows_of_text = Unmasked(ids, torch.full((rows,), 8), torch.arange(rows), 7, 500)
    _, labels, weights = diffused.of(rows_of_text)
    assert weights is not None
    counts = (labels != IGNORED).sum(1) * weights.double()
    losses = counts / weights
    assert float(losses.mean() / 8) == pytest.approx(0.5, abs=0.002)
    steps = losses.view(-1, batch).sum(1) / counts.view(-1, batch).sum(1)
    expected = (np.log(1 / LEAST) - 2) / (2 * batch * 8)
    assert 0.5 * expected < float(steps.mean()) - 0.5 < 1.2 * expected

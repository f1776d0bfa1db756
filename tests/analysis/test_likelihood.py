"""Pseudo-log-likelihoods, against the definition written as loops."""

import numpy as np
import pytest
import torch

from relpos.analysis.likelihood import masked_rows, pseudo_log_likelihoods
from relpos.data.tokenizer import CLS, MASK, SEP
from relpos.data.words import Words
from relpos.model.heads import MaskedLM
from relpos.model.tokens import in_batch
from schemes import POSITIONS, VOCABULARY, model_of


class Fives(Words):
    """Words for the tests' vocabulary without a tokenizer: an odd id goes on with the word before
    it."""

    def __init__(self) -> None:
        pass

    def begins(self, ids: np.ndarray) -> np.ndarray:
        first = np.zeros_like(ids, dtype=bool)
        first[..., 0] = True
        return first | (ids % 2 == 0)


def defined(model: MaskedLM, ids: list[int], words: Words | None, first: int = 0) -> float:
    """Salazar et al. 2020, Eq. 1; with words Kauf & Ivanova 2023; of the tokens from `first` on."""
    total = 0.0
    for t, target in list(enumerate(ids))[first:]:
        hidden = {t}
        if words:
            numbers = words.numbers(np.array(ids))
            hidden |= {j for j in range(t, len(ids)) if numbers[j] == numbers[t]}
        row = [CLS, *ids, SEP]
        for j in hidden:
            row[j + 1] = MASK
        with torch.no_grad():
            total += float(torch.log_softmax(model(torch.tensor([row]))[0, t + 1], -1)[target])
    return total


def texts(lengths: list[int]) -> list[np.ndarray]:
    chance = np.random.default_rng(0)
    return [chance.integers(5, VOCABULARY, size=length) for length in lengths]


@pytest.mark.parametrize("words", [None, Fives()], ids=["plain", "within_word"])
@pytest.mark.parametrize("unscored", [0, [0, 3, 2, 0, 6]], ids=["all", "given"])
def test_a_pseudo_log_likelihood_sums_scored_tokens_masked_one_at_a_time(words, unscored):
    model, sentences = model_of("composite").eval(), texts([4, 7, 4, 1, 7])
    expected = [
        defined(model, ids.tolist(), words, first)
        for ids, first in zip(sentences, np.broadcast_to(unscored, 5), strict=True)
    ]
    totals = pseudo_log_likelihoods(model, sentences, words, unscored=unscored)
    assert totals == pytest.approx(expected, rel=1e-9)


def test_the_later_pieces_of_a_word_are_masked_too_and_the_earlier_ones_are_not():
    ids = np.array([[6, 7, 9, 8]])
    rows = masked_rows(ids, Fives().numbers(ids), MASK)[0]
    assert rows.tolist() == [
        [MASK, MASK, MASK, 8],
        [6, MASK, MASK, 8],
        [6, 7, MASK, 8],
        [6, 7, 9, MASK],
    ]


def test_likelihoods_are_computed_in_float32_under_bfloat16_and_training(monkeypatch):
    model, sentences = model_of("tisa").float().train(), texts([5, 5])
    expected = pseudo_log_likelihoods(model, sentences, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert pseudo_log_likelihoods(model, sentences, None).tolist() == expected.tolist()
    assert model.training


@pytest.mark.parametrize("position", POSITIONS)
def test_outputs_at_chosen_tokens_equal_those_of_a_whole_pass(position):
    model = model_of(position).eval()
    ids, at = torch.from_numpy(np.stack(texts([9, 9, 9]))), torch.tensor([0, 8, 4])
    assert torch.allclose(
        model.encoder(ids, at=in_batch(at, ids.shape[1])),
        model.encoder(ids)[torch.arange(3), at],
        rtol=0,
        atol=1e-12,
    )

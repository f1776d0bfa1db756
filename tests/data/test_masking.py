"""Masks are a function of their keys; 15 % of the text is chosen, 80/10/10."""

import pytest
import torch
from torch import Tensor

from relpos.data.objective import Masked, Unmasked
from relpos.data.objective import masked as bert
from relpos.data.tokenizer import CLS, MASK, PAD, SEP

VOCABULARY = 500


@pytest.fixture(scope="module")
def masked() -> tuple[Tensor, Tensor, Tensor]:
    """ids, masked ids and labels of 400 rows of 126 tokens of text."""
    ids = torch.randint(5, VOCABULARY, (400, 128), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = CLS, SEP
    ids_and_labels = bert.of(
        Unmasked(ids, torch.full((400,), 128), torch.arange(400), 7, VOCABULARY)
    )
    return ids, *ids_and_labels[:2]


def test_fifteen_per_cent_of_the_tokens_are_chosen(masked):
    assert (masked[2] != -100).float().mean().item() == pytest.approx(0.15 * 126 / 128, abs=0.006)


def test_eighty_per_cent_of_the_chosen_tokens_become_mask(masked):
    _, out, labels = masked
    assert (out[labels != -100] == MASK).float().mean().item() == pytest.approx(0.8, abs=0.02)


def test_ten_per_cent_of_the_chosen_tokens_stay(masked):
    ids, out, labels = masked
    assert (out == ids)[labels != -100].float().mean().item() == pytest.approx(0.1, abs=0.015)


def test_labels_are_the_ids_of_the_text_and_other_tokens_stay(masked):
    ids, out, labels = masked
    chosen = labels != -100
    assert torch.equal(labels[chosen], ids[chosen])
    assert torch.equal(out[~chosen], ids[~chosen])


def test_random_ids_reach_the_whole_vocabulary(masked):
    ids, out, labels = masked
    drawn = out[(labels != -100) & (out != ids) & (out != MASK)]
    assert drawn.min() < 5
    assert drawn.max() == VOCABULARY - 1
    assert len(drawn.unique()) > 0.7 * VOCABULARY


def test_special_tokens_are_never_chosen():
    ids = torch.tensor([[CLS, 9, SEP, 8, SEP, PAD, PAD, PAD]]).expand(2000, 8)
    objective = Masked(0.9, 0.9)
    _, labels, _ = objective.of(
        Unmasked(ids, torch.full((2000,), 5), torch.arange(2000), 0, VOCABULARY)
    )
    assert sorted(labels.unique().tolist()) == [-100, 8, 9]


def test_masks_do_not_depend_on_the_row_or_the_padding():
    ids = torch.randint(5, VOCABULARY, (6, 16), generator=torch.Generator().manual_seed(1))
    keys, lengths = torch.arange(6), torch.full((6,), 16)
    out, labels, _ = bert.of(Unmasked(ids, lengths, keys, 3, VOCABULARY))
    wide = torch.nn.functional.pad(ids.flip(0), (0, 8))
    other, other_labels, _ = bert.of(Unmasked(wide, lengths, keys.flip(0), 3, VOCABULARY))
    assert torch.equal(other.flip(0)[:, :16], out)
    assert torch.equal(other_labels.flip(0)[:, :16], labels)


@pytest.mark.parametrize(("key", "seed"), [(1, 3), (0, 4)])
def test_another_key_or_seed_gives_other_masks(key, seed):
    def labels(key: int, seed: int) -> Tensor:
        ids, lengths = torch.full((1, 512), 9), torch.tensor([512])
        return bert.of(Unmasked(ids, lengths, torch.tensor([key]), seed, VOCABULARY)).labels

    assert not torch.equal(labels(key, seed), labels(0, 3))

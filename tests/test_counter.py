import pytest
import torch

from relpos.counter import counter_hash, fold, uniform


def splitmix64(word: int) -> int:
    """The published generator's output function, in Python's integers."""
    word = (word + 0x9E3779B97F4A7C15) % 2**64
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
    return word ^ (word >> 31)


def test_first_output_is_the_published_one():
    assert fold(0) % 2**64 == 0xE220A8397B1DCDAF  # splitmix64 seeded with 0


@pytest.mark.parametrize("keys", [(0,), (1, 2), (2**63 - 1, -1, 5), (-(2**63),)])
def test_tensors_and_integers_give_the_same_bits(keys):
    word = 0
    for key in keys:
        word = splitmix64(word ^ (key % 2**64))
    tensors = counter_hash(*(torch.tensor([key]) for key in keys))
    mixed = counter_hash(keys[0], *(torch.tensor([key]) for key in keys[1:]))
    assert fold(*keys) % 2**64 == int(tensors[0]) % 2**64 == int(mixed.flatten()[0]) % 2**64 == word
    assert int(counter_hash(*keys)) == fold(*keys)


def test_keys_broadcast():
    table = counter_hash(7, torch.arange(3)[:, None], torch.arange(5))
    assert table.shape == (3, 5)
    assert int(table[2, 4]) == fold(7, 2, 4)


def test_keys_are_left_alone():
    key = torch.arange(4)
    counter_hash(key, 3)
    assert key.tolist() == [0, 1, 2, 3]


def test_uniform_is_uniform():
    x = uniform(3, torch.arange(200_000))
    assert x.dtype == torch.float32
    assert 0 <= float(x.min()) < float(x.max()) < 1
    counts = torch.histc(x, 20, 0, 1)
    assert float(((counts - 10_000) ** 2 / 10_000).sum()) < 50  # chi-square, 19 degrees of freedom


def test_every_bit_is_even_handed():
    bits = counter_hash(5, torch.arange(50_000))
    for bit in range(64):
        assert abs(float(((bits >> bit) & 1).double().mean()) - 0.5) < 0.015


def test_neighbouring_seeds_are_unrelated():
    a, b = (uniform(seed, torch.arange(100_000)).double() for seed in (1, 2))
    assert abs(float(torch.corrcoef(torch.stack([a, b]))[0, 1])) < 0.02

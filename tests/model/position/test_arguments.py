"""Schemes by their arguments: how many parameters the papers' sizes have, and what is refused."""

from dataclasses import replace

import pytest

from relpos.errors import RelposError
from relpos.model.position import (
    T5,
    Absolute,
    Alibi,
    Deberta,
    Dynamic,
    Floater,
    Huang4,
    Kerple,
    KerplePower,
    Rope,
    SelectiveRope,
    SynthesizerDense,
    SynthesizerRandom,
    Tisa,
    Tupe,
)
from relpos.model.shape import Shape
from relpos.ranges import shown
from schemes import SHAPE, refusal

SMALL = Shape(heads=4, head_dim=64, hidden=256, embedding=128, layers=12, max_positions=128)
BASE = Shape(heads=12, head_dim=64, hidden=768, embedding=768, layers=12, max_positions=512)


@pytest.mark.parametrize(
    ("scheme", "keys", "shape", "number"),
    [
        (Huang4, {}, SMALL, 255 * 64 * 12),
        (Kerple, {}, BASE, 2 * 12),
        (KerplePower, {}, BASE, 2 * 12),
        (Dynamic, {"k": 2, "value": True}, BASE, 2 * 12 * 5 * 64),
        (SynthesizerDense, {}, SMALL, 12 * 64 * 128),
        (SynthesizerDense, {"factor": 16}, SMALL, 12 * 64 * (16 + 8)),
        (SynthesizerRandom, {"mixture": True}, SMALL, 12 * (4 * 128 * 128 + 1)),
        (SynthesizerRandom, {"rank": 8}, SMALL, 12 * 2 * 8 * 4 * 128),
        (SynthesizerRandom, {}, SMALL, 12 * 4 * 128 * 128),
        (T5, {}, BASE, 32 * 12),
        (Tisa, {"kernels": 5}, BASE, 2_160),
        (Tupe, {}, BASE, 1_576_704),
        (Tupe, {"relative": True}, BASE, 1_576_704 + 396),
    ],
)
def test_counts_of_the_papers_sizes(scheme, keys, shape, number):
    assert scheme(shape, **keys).count(shape) == number


@pytest.mark.parametrize(
    ("scheme", "keys", "message"),
    [
        (Absolute, {"std": -1}, "std=-1: a number above 0 is expected"),
        (Alibi, {"sides": "left"}, "sides=left: symmetric, half or shift is expected"),
        (Deberta, {"buckets": 7}, "buckets must be an even number of 4 or more, not 7"),
        (Deberta, {"buckets": 8, "max_distance": 5},
         "max_distance must be a whole number of more than 5, half of the buckets and one, not 5"),
        (Floater, {"refresh": 0}, "refresh=0: a whole number of 1 or more is expected"),
        *((Rope, {"fraction": value}, f"fraction={value}: a number above 0 and up to 1 is expected")
          for value in (0.0, 1.5, "all")),
        (SynthesizerDense, {"factor": 5}, "factor must divide max_positions, 16; 5 does not"),
        (SynthesizerRandom, {"rank": 0}, "rank=0: a whole number of 1 or more or null is expected"),
        (T5, {"buckets": 7}, "buckets must be an even number of 4 or more, not 7"),
        (T5, {"buckets": 2}, "buckets must be an even number of 4 or more, not 2"),
        (T5, {"max_distance": 8}, "max_distance must be a whole number of more than 8, a quarter "
                                  "of the buckets, not 8"),
        (T5, {"max_distance": 1.5}, "max_distance=1.5: a whole number of 1 or more is expected"),
        *((Tisa, {"kernels": value}, f"kernels={shown(value)}: a whole number of 0 or more is "
                                     f"expected")
          for value in (-1, 1.5, "x", True)),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_one_line(scheme, keys, message):
    assert refusal(scheme, SHAPE, **keys).startswith(message)


@pytest.mark.parametrize("scheme", [Rope, SelectiveRope])
def test_pairs_of_channels_need_an_even_number(scheme):
    message = rf"^{scheme.__name__} turns pairs of channels: head_dim = hidden / heads must be even, not 3$"
    with pytest.raises(RelposError, match=message):
        scheme(replace(SHAPE, head_dim=3))

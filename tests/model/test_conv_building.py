"""Building convolutions: how many parameters they have, and which arguments and combinations are
refused."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

import relpos
from model.conv_options import EVERY_OPTION, OPTIONS, QK
from relpos.errors import RelposError
from relpos.model.build import count
from relpos.model.conv import (
    Canon,
    ConvBert,
    ConvQK,
    ConvQKV,
    ConvValue,
    Depthwise,
    Inkling,
    KvShift,
    LightConv,
    Merge,
)
from relpos.model.conv.projections import convolved_heads
from relpos.model.position import Fixed, NoPosition, SynthesizerRandom
from schemes import (
    CONVS,
    SHAPE,
    SIZE,
    VOCABULARY,
    batch,
    build,
    is_counted,
    model_of,
    preset,
    refusal,
)

ROWS = [
    ("none", "depthwise", 13_469_620),
    ("composite", "depthwise", 13_483_492),
    ("none", "qk", 13_524_916),
    ("none", "value", 13_469_620),
    ("none", "qkv", 13_580_212),
    ("composite", "qk", 13_538_788),
    ("composite", "value", 13_483_492),
    ("composite", "qkv", 13_594_084),
    ("absolute", "convbert", 13_094_540),
]


@pytest.mark.parametrize("conv", CONVS)
def test_count_of_a_convolution_equals_its_formula(conv):
    for k in (0, 2, 8):
        assert is_counted(preset("conv", conv, k=k)(SHAPE))


@EVERY_OPTION
def test_count_of_the_options_equals_the_formula(conv):
    assert is_counted(conv(SHAPE))


@pytest.mark.parametrize(("position", "conv", "total"), ROWS)
def test_totals_of_the_printed_rows(position, conv, total):
    overrides = ["size=small", f"position={position}", f"conv={conv}"]
    with torch.device("meta"):
        assert count(relpos.build(relpos.compose("pretrain", overrides)))["total"] == total


LETTERS = "some of the letters ABCD are expected, each once"
REFUSED: list[tuple[type[Any], dict[str, Any], str]] = [
    (Depthwise, {"k": -1}, "k=-1: a whole number of 0 or more is expected"),
    (Depthwise, {"k": 2, "bias": "on"}, "bias=on: true or false is expected"),
    (ConvQK, {"k": 2, "fraction": 0}, "fraction=0: a number above 0 and up to 1 is expected"),
    (ConvQK, {"k": 2, "fraction": 0.3}, "fraction=0.3 of 2 heads is no whole number"),
    (
        ConvQK,
        {"k": 2, "activation": "gelo"},
        "activation=gelo: none or gelu is expected. Did you mean 'gelu'?",
    ),
    (ConvBert, {"width": 4}, "width must be an odd number, not 4"),
    (
        ConvBert,
        {"kernel_from": "keys"},
        "kernel_from=keys: query or key is expected. Did you mean 'key'?",
    ),
    (
        ConvBert,
        {"edges": "zeros"},
        "edges=zeros: renormalise or zero is expected. Did you mean 'zero'?",
    ),
    (LightConv, {"k": "x"}, "k=x: a whole number of 0 or more is expected"),
    (Inkling, {"k": -1}, "k=-1: a whole number of 0 or more is expected"),
    *((Canon, {"places": value}, f"conv.places={value}: {LETTERS}") for value in ("AE", 12, "AA")),
    *(
        (Merge, {"parts": value}, f"conv.parts must be a list of convolutions, not {value!r}")
        for value in ("qk", [])
    ),
    (
        Merge,
        {"parts": [QK, partial(ConvQKV, k=1)]},
        "conv.parts: ConvQK and ConvQKV both make k, q",
    ),
    (
        Merge,
        {"parts": [QK, partial(LightConv, k=1)]},
        "conv.parts: ConvQK and LightConv both make k, q",
    ),
    *(
        (
            Merge,
            {"parts": [other, ConvBert]},
            f"conv.parts: ConvBert takes heads from the scores, and {reason}",
        )
        for other, reason in (
            (QK, "ConvQK makes k, q for all"),
            (KvShift, "KvShift changes k in all"),
            (ConvBert, "ConvBert takes some too"),
        )
    ),
]


@pytest.mark.parametrize(("conv", "keys", "message"), REFUSED)
def test_a_wrong_argument_of_a_convolution_is_one_line(conv, keys, message):
    assert refusal(build, SIZE, NoPosition, VOCABULARY, partial(conv, **keys)) == message


@pytest.mark.parametrize(
    ("conv", "position", "message"),
    [
        (
            partial(LightConv, k=2),
            partial(Fixed, k=2),
            "conv LightConv has no scores on which position Fixed could act",
        ),
        (
            Canon,
            partial(SynthesizerRandom, mixture=False),
            "conv Canon works on k, q, which position SynthesizerRandom does without",
        ),
    ],
)
def test_pairs_that_mean_nothing_are_refused_in_one_line(conv, position, message):
    assert refusal(build, SIZE, position, VOCABULARY, conv) == message


def test_convbert_refuses_an_odd_number_of_heads():
    with pytest.raises(RelposError, match=r"conv ConvBert halves the heads, and heads=1 is odd"):
        build({**SIZE, "heads": 1}, NoPosition, VOCABULARY, ConvBert)


def test_a_scheme_without_queries_is_refused_by_name():
    class Blind(NoPosition):
        projections = frozenset("v")
        scale = None

    for conv, name, missing in (
        (QK, "ConvQK", "k, q"),
        (ConvBert, "ConvBert", "q"),
        (OPTIONS["depthwise and qk"], "Merge", "k, q"),
    ):
        with pytest.raises(
            RelposError,
            match=rf"conv {name}\S* ?\S* works on {missing}, which position Blind does without",
        ):
            build(SIZE, Blind, VOCABULARY, conv)
    assert build(SIZE, Blind, VOCABULARY, partial(ConvValue, k=2))(batch()[0]).isfinite().all()


def test_the_original_convbert_has_no_bias_in_its_depthwise_convolution():
    plain, without = (
        model_of("none", "convbert", conv_keys=keys) for keys in ({}, {"bias": False})
    )
    assert count(plain)["total"] - count(without)["total"] == SHAPE.layers * SHAPE.hidden
    assert not [name for name, _ in without.named_parameters() if name.endswith("depthwise.bias")]


def test_a_fraction_of_the_heads_is_that_of_its_decimals():
    assert convolved_heads(replace(SHAPE, heads=25), 0.28) == 7  # the product is above 7 in binary

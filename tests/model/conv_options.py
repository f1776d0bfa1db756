"""Convolutions with other arguments than the presets have."""

from functools import partial
from typing import Any

import pytest

from relpos.model.conv import (
    Canon,
    ConvBert,
    ConvQK,
    ConvQKV,
    ConvValue,
    Depthwise,
    DynamicConv,
    Inkling,
    KvShift,
    LightConv,
    Merge,
)
from schemes import SHAPE, filled

DEPTHWISE, QK = partial(Depthwise, k=2), partial(ConvQK, k=1)
OPTIONS = {
    "depthwise, k=0": partial(Depthwise, k=0),
    "depthwise without bias": partial(Depthwise, k=2, bias=False),
    "depthwise, wider than the sequence": partial(Depthwise, k=9),
    "qk with gelu": partial(ConvQK, k=1, activation="gelu"),
    "qkv in all heads": partial(ConvQKV, k=1, fraction=1),
    "value in all heads with gelu": partial(ConvValue, k=2, fraction=1, activation="gelu"),
    "convbert, key": partial(ConvBert, width=5, kernel_from="key"),
    "convbert, zero": partial(ConvBert, width=5, edges="zero"),
    "convbert, key, zero": partial(ConvBert, width=5, kernel_from="key", edges="zero"),
    "convbert, width 1": partial(ConvBert, width=1),
    "lightconv, k=0": partial(LightConv, k=0),
    "dynamicconv, wide": partial(DynamicConv, k=6),
    **{f"canon {letter}": partial(Canon, k=1, places=letter) for letter in "ABCD"},
    "canon, wide": partial(Canon, k=9),
    "inkling, k=1": partial(Inkling, k=1),
    "canon and inkling from the left": partial(
        Merge,
        parts=[
            partial(Canon, places="AC", k=3, right=False),
            partial(Inkling, k=1, right=False),
        ],
    ),
    "kv_shift from the left": partial(KvShift, right=False),
    "canon, convbert and depthwise": partial(
        Merge,
        parts=[partial(Canon, places="ACD"), partial(ConvBert, width=3), DEPTHWISE],
    ),
    "canon behind qk, and shifts": partial(Merge, parts=[KvShift, partial(Canon, places="DB"), QK]),
    "canon and lightconv": partial(
        Merge, parts=[partial(Canon, places="AC"), partial(LightConv, k=1)]
    ),
    "depthwise and qk": partial(Merge, parts=[DEPTHWISE, QK]),
    "depthwise and convbert": partial(
        Merge,
        parts=[
            partial(ConvBert, width=3),
            DEPTHWISE,
            partial(Depthwise, k=1, bias=False),
        ],
    ),
    "depthwise and lightconv": partial(Merge, parts=[DEPTHWISE, partial(LightConv, k=1)]),
    "merges in merges": partial(
        Merge, parts=[partial(Merge, parts=[DEPTHWISE]), partial(ConvValue, k=1)]
    ),
}


def silent(conv: Any) -> Any:
    """The convolution by itself, its parameters zero."""
    return filled(conv(SHAPE), 0.0)


EVERY_OPTION = pytest.mark.parametrize("conv", OPTIONS.values(), ids=OPTIONS.keys())

"""Convolutions with other arguments than the presets have."""

from functools import partial

import pytest

from relpos.model import conv

DEPTHWISE, QK = partial(conv.Depthwise, k=2), partial(conv.ConvQK, k=1)
OPTIONS = {
    "depthwise, k=0": partial(conv.Depthwise, k=0),
    "depthwise without bias": partial(conv.Depthwise, k=2, bias=False),
    "depthwise, wider than the sequence": partial(conv.Depthwise, k=9),
    "qk with gelu": partial(conv.ConvQK, k=1, activation="gelu"),
    "qkv in all heads": partial(conv.ConvQKV, k=1, fraction=1),
    "value in all heads with gelu": partial(conv.ConvValue, k=2, fraction=1, activation="gelu"),
    "convbert, key": partial(conv.ConvBert, width=5, kernel_from="key"),
    "convbert, zero": partial(conv.ConvBert, width=5, edges="zero"),
    "convbert, key, zero": partial(conv.ConvBert, width=5, kernel_from="key", edges="zero"),
    "convbert, width 1": partial(conv.ConvBert, width=1),
    "lightconv, k=0": partial(conv.LightConv, k=0),
    "dynamicconv, wide": partial(conv.DynamicConv, k=6),
    **{f"canon {letter}": partial(conv.Canon, k=1, places=letter) for letter in "ABCD"},
    "canon, wide": partial(conv.Canon, k=9),
    "inkling, k=1": partial(conv.Inkling, k=1),
    "canon and inkling from the left": partial(
        conv.Merge,
        parts=[
            partial(conv.Canon, places="AC", k=3, right=False),
            partial(conv.Inkling, k=1, right=False),
        ],
    ),
    "kv_shift from the left": partial(conv.KvShift, right=False),
    "canon, convbert and depthwise": partial(
        conv.Merge,
        parts=[partial(conv.Canon, places="ACD"), partial(conv.ConvBert, width=3), DEPTHWISE],
    ),
    "canon behind qk, and shifts": partial(
        conv.Merge, parts=[conv.KvShift, partial(conv.Canon, places="DB"), QK]
    ),
    "canon and lightconv": partial(
        conv.Merge, parts=[partial(conv.Canon, places="AC"), partial(conv.LightConv, k=1)]
    ),
    "depthwise and qk": partial(conv.Merge, parts=[DEPTHWISE, QK]),
    "depthwise and convbert": partial(
        conv.Merge,
        parts=[
            partial(conv.ConvBert, width=3),
            DEPTHWISE,
            partial(conv.Depthwise, k=1, bias=False),
        ],
    ),
    "depthwise and lightconv": partial(conv.Merge, parts=[DEPTHWISE, partial(conv.LightConv, k=1)]),
    "merges in merges": partial(
        conv.Merge, parts=[partial(conv.Merge, parts=[DEPTHWISE]), partial(conv.ConvValue, k=1)]
    ),
}
EVERY_OPTION = pytest.mark.parametrize("conv", OPTIONS.values(), ids=OPTIONS.keys())

"""Convolutions at the injection points of a layer. A file is loaded when its class is named."""

from __future__ import annotations

from importlib import import_module

from relpos.model.conv.base import Conv, NoConv

__all__ = ["FILES", "Conv", "NoConv"]
FILES = {
    "ConvBert": "convbert",
    "Depthwise": "depthwise",
    "KvShift": "kv_shift",
    "DynamicConv": "lightconv",
    "LightConv": "lightconv",
    "Merge": "merge",
    "ConvQK": "projections",
    "ConvQKV": "projections",
    "ConvValue": "projections",
    "Canon": "short",
    "Inkling": "short",
}
"""Class → its file."""


def __getattr__(name: str) -> type[Conv]:
    if name not in FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    conv: type[Conv] = getattr(import_module(f"{__name__}.{FILES[name]}"), name)
    return conv

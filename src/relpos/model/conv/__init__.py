"""Convolutions at the injection points of the attention, one a file."""

from relpos.model.conv.base import Conv, NoConv

__all__ = ["Conv", "NoConv"]

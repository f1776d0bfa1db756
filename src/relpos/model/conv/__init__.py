"""Convolutions at the injection points of a layer."""

from relpos.model.conv.base import Conv, NoConv
from relpos.model.conv.convbert import ConvBert
from relpos.model.conv.depthwise import Depthwise
from relpos.model.conv.kv_shift import KvShift
from relpos.model.conv.lightconv import DynamicConv, LightConv
from relpos.model.conv.merge import Merge
from relpos.model.conv.projections import ConvQK, ConvQKV, ConvValue
from relpos.model.conv.short import Canon, Inkling

__all__ = [
    "Canon",
    "Conv",
    "ConvBert",
    "ConvQK",
    "ConvQKV",
    "ConvValue",
    "Depthwise",
    "DynamicConv",
    "Inkling",
    "KvShift",
    "LightConv",
    "Merge",
    "NoConv",
]

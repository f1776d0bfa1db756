"""Convolutions at the injection points of the attention, one per file."""

from relpos.model.conv.base import Conv, NoConv
from relpos.model.conv.convbert import ConvBert
from relpos.model.conv.depthwise import Depthwise
from relpos.model.conv.lightconv import DynamicConv, LightConv
from relpos.model.conv.merge import Merge
from relpos.model.conv.projections import ConvQK, ConvQKV, ConvValue

__all__ = ["Conv", "ConvBert", "ConvQK", "ConvQKV", "ConvValue", "Depthwise", "DynamicConv", "LightConv", "Merge", "NoConv"]

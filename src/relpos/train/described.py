"""From the keys `size`, `position`, `conv`, `vocabulary` to a network: what a model folder's configuration describes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from relpos.model.build import build
from relpos.model.position.base import Scheme
from relpos.model.shape import Shape
from relpos.trust import constructor


def network(config: dict[str, Any], filled: bool = True) -> Any:
    """The network that `size`, `position`, `conv`, `vocabulary` describe; initialised from torch's present seed.

    It is a `MaskedLM`; a `Classifier` where `outputs` gives a number of outputs; or has the head that `head` describes.

    Args:
        filled: false leaves the parameters without memory (torch's device `meta`), until those of a file are assigned. Only the
            position scheme has values all the same: it holds numbers that no file stores, and parameters that the file may lack.

    Raises:
        RelposError: a class named by `_target_` is not a Scheme, or refuses its arguments.
    """
    position, conv = (constructor(config[key], key) for key in ("position", "conv"))
    head: Any = config.get("head")
    if "outputs" in config:
        head = (head or {}) | {"kind": "classifier", "outputs": config["outputs"]}
    kernel = config.get("kernel", "auto")
    if filled:
        return build(config["size"], position, config["vocabulary"], conv, kernel, head)

    def with_values(shape: Shape) -> Scheme:
        with torch.device("cpu"):
            scheme: Scheme = position(shape)
        return scheme

    with torch.device("meta"):
        return build(config["size"], with_values, config["vocabulary"], conv, kernel, head)


def scheme_name(meaning: Mapping[str, Any]) -> str:
    """Position scheme and convolution of a configuration, as the name of its run begins: `rope-depthwise`."""
    position, conv = (class_of(meaning[key]) for key in ("position", "conv"))
    return position if conv == "none" else f"{position}-{conv}"


def class_of(node: Mapping[str, Any] | None) -> str:
    """The class that a node names, in snake case, or `none`; of a merge, the names of its parts: `absolute+tisa`; of a list by
    layers, those of its schemes: `rope_or_rope+window`."""
    if not node:
        return "none"
    if parts := node.get("parts"):
        return "+".join(map(class_of, parts))
    if layers := node.get("layers"):
        return "_or_".join(dict.fromkeys(map(class_of, layers)))
    name = str(node["_target_"]).rpartition(".")[2]
    return "none" if name in ("NoPosition", "NoConv") else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()

"""A network of ours → configuration and weights as `transformers` has them, if a family can express it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.pretrained.families import FAMILIES
from relpos.pretrained.family import Family, Head
from relpos.pretrained.weights import listed, write
from relpos.pretrained.words import to_config


@dataclass(frozen=True)
class Published:
    """What `config.json` and the file of weights of a checkpoint hold."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]


def published(model: nn.Module, words: Mapping[str, Any]) -> Published | None:
    """The network in the form of the first family that can express it; None where none can.

    Args:
        model: a `MaskedLM` or a `Classifier`.
        words: its configuration.
    """
    for family in FAMILIES.values():
        try:
            config = to_config(family, words)
        except RelposError:
            continue
        for head in family.heads:
            if _is_head(head, words) and (tensors := _tensors(family, head, model, words)) is not None:
                tied = head.words.get("tied", True)
                return Published(config | {"architectures": [head.architecture], "tie_word_embeddings": tied}, tensors)
    return None


def _is_head(head: Head, words: Mapping[str, Any]) -> bool:
    """Whether a network of this configuration has this head."""
    if "outputs" in words:
        return head.words.get("kind") == "classifier"
    ours = words.get("head") or {}
    activation = words["size"].get("activation", "gelu")
    defaults = {"kind": "masked_lm", "tied": True, "activation": activation, "pooler": False}
    return {**defaults, **head.words} == {**defaults, **ours}


def _tensors(family: Family, head: Head, model: nn.Module, words: Mapping[str, Any]) -> dict[str, Tensor] | None:
    """Name → weight; None where the network does not have the parameters of the family."""
    size, parameters = words["size"], dict(model.named_parameters())
    layers = 1 if size.get("share_layers") else size["layers"]
    weights = listed(family, head, layers, False, size["embedding"] != size["hidden"], family.prefix)
    if {weight.ours for weight in weights} != parameters.keys():
        return None
    written = (pair for weight in weights for pair in write(weight, parameters[weight.ours].detach().cpu()))
    return {name: tensor.clone() for name, tensor in written}  # parts of one tensor may not share memory in a file

"""From the keys `size`, `position`, `conv`, `vocabulary` to a network, without touching data; and
new heads on its encoder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from relpos.errors import RelposError
from relpos.model.build import WEIGHTS, Network, build, count
from relpos.model.encoder import encoder_of
from relpos.model.heads import Classifier, ClassifierKind, MaskedLM
from relpos.model.initial import describe, redraw
from relpos.model.position.base import Scheme
from relpos.model.shape import Shape
from relpos.trust import constructor

MOST = 10**13
"""Parameters; a network of more is a typing mistake."""


def network(config: Mapping[str, Any], filled: bool = True) -> Any:
    """The network that `size`, `position`, `conv`, `vocabulary` describe; initialised from torch's
    present seed.

    It is a `MaskedLM`; a `Classifier` where `outputs` gives a number of outputs; or has the head
    that `head` describes.

    Args:
        filled: false leaves the parameters without memory (torch's device `meta`), until those of a
            file are assigned. Only the position scheme has values all the same: it holds numbers
            that no file stores, and parameters that the file may lack.

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


def description(config: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    """Size, position and conv of a configuration, with the vocabulary: what `network` builds."""
    return {key: config[key] for key in ("size", "position", "conv")} | {"vocabulary": vocabulary}


def scheme_name(meaning: Mapping[str, Any]) -> str:
    """Position scheme and convolution of a configuration, as the name of its run begins:
    `rope-depthwise`."""
    position, conv = (class_of(meaning[key]) for key in ("position", "conv"))
    return position if conv == "none" else f"{position}-{conv}"


def class_of(node: Mapping[str, Any] | None) -> str:
    """The class that a node names, in snake case, or `none`; of a merge, the names of its parts:
    `absolute+tisa`; of a list by layers, those of its schemes: `rope_or_rope+window`."""
    if not node:
        return "none"
    if parts := node.get("parts"):
        return "+".join(map(class_of, parts))
    if layers := node.get("layers"):
        return "_or_".join(dict.fromkeys(map(class_of, layers)))
    name = str(node["_target_"]).rpartition(".")[2]
    return (
        "none"
        if name in ("NoPosition", "NoConv")
        else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    )


def classifier_on(
    model: nn.Module, outputs: int, dropout: float, kind: ClassifierKind = "plain"
) -> Classifier:
    """A new classifier on a pre-trained or fine-tuned encoder, drawn from torch's present seed.

    The pooler of an intermediate task, or of a published checkpoint, is kept; the output layer is
    new, as in the authors' code.
    """
    # Drawn before the classifier is built, so that it does not depend on how many numbers that
    # draws.
    seed = int(torch.randint(1 << 62, (), device="cpu"))
    encoder = encoder_of(model)
    # The classifier has one of its own: two would be stored, and one of them never read.
    pooler, encoder.pooler = encoder.pooler, None
    new = Classifier(encoder, outputs, dropout, kind)
    redraw(
        (
            (name, parameter)
            for name, parameter in new.named_parameters()
            if not name.startswith("encoder.")
        ),
        seed,
    )
    if isinstance(model, Classifier):
        pooler = model.pooler
    if pooler is not None:
        new.pooler.load_state_dict(pooler.state_dict())
    return new


def masked_lm_on(model: nn.Module) -> MaskedLM:
    """The model itself if it is a masked language model; otherwise its encoder with a new head,
    drawn from torch's present seed."""
    encoder = encoder_of(model)
    encoder.pooler = None  # nothing would train it
    if isinstance(model, MaskedLM):
        return model
    seed = int(torch.randint(1 << 62, (), device="cpu"))
    new = MaskedLM(encoder)
    describe(new.head.narrow.weight, WEIGHTS)
    if new.head.narrow.bias is not None:
        nn.init.zeros_(new.head.narrow.bias)
    redraw(
        (
            (name, parameter)
            for name, parameter in new.named_parameters()
            if name.startswith("head.")
        ),
        seed,
    )
    return new


@contextmanager
def without_memory() -> Iterator[None]:
    """Networks made inside this context have shapes but no values. Sizes that no tensor can have
    raise RelposError."""
    try:
        with torch.device("meta"), _Undrawn():
            yield
    except (RuntimeError, OverflowError) as error:
        if "verflow" not in str(error):
            raise
        raise RelposError(f"more than {MOST:.0e} parameters: too many to count") from error


class _Undrawn(TorchFunctionMode):
    """`normal_` does nothing: on the meta device it would import torch's compiler, which takes two
    seconds."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.nn.init.normal_:
            return kwargs["tensor"]
        return args[0] if function is torch.Tensor.normal_ else function(*args, **kwargs)


def counted(model: Network) -> dict[str, Any]:
    """`relpos.model.build.count`; refuses a network of more than `MOST` parameters.

    Raises:
        RelposError: says how many there are.
    """
    numbers = count(model)
    if numbers["total"] > MOST:
        raise RelposError(f"{numbers['total']:.2e} parameters: more than {MOST:.0e} are too many")
    return numbers


def counted_without_memory(config: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of a network whose tensors have shapes but no values.

    Raises:
        RelposError: there are more than 10¹³ parameters.
    """
    with without_memory():
        return counted(network(config))

"""Builds a network from its sizes, initialises it, and counts its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict

import torch
from torch import nn

from relpos.model import kernels
from relpos.model.conv import Conv
from relpos.model.encoder import Encoder, encoder_of
from relpos.model.heads import Classifier, ClassifierKind, MaskedLM, ReplacedTokens
from relpos.model.initial import Distribution, describe, redraw
from relpos.model.position.base import Position, Scheme
from relpos.model.shape import Shape

WEIGHTS = Distribution(0.0, 0.02, gaussian=True)
"""Distribution of the initial weights of linear maps and embeddings."""

Network = MaskedLM | ReplacedTokens | Classifier | Encoder


class HeadSettings(TypedDict, total=False):
    """Describes the head; a key that is left out has the value that the networks trained here have.

    kind: masked_lm (the default), replaced_tokens, classifier, or none for the encoder alone.
    activation, tied: of a masked language model, see `MaskedLM`.
    outputs: of a classifier.
    classifier: its kind, see `Classifier`.
    pooler: whether the encoder has a pooler.
    """

    kind: Literal["masked_lm", "replaced_tokens", "classifier", "none"]
    activation: str
    tied: bool
    outputs: int
    classifier: ClassifierKind
    pooler: bool


def initialise(model: Network, seed: int) -> None:
    """Weights of linear maps and embeddings N(0, 0.02²), biases 0, layer norms (1, 0).

    A position scheme, and a convolution for parameters that belong to no linear map, say themselves
    what is drawn, as in the authors' code. The row of the padding is drawn like the others. Each
    value is a function of the seed, the parameter's name and its place, so that two models that
    differ in scheme or convolution start from the same weights wherever both have them: the rows of
    a table are paired.

    What a class from outside the package has drawn in another way is left as it is.
    """
    encoder = encoder_of(model)
    schemes = set(encoder.position.modules())
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Embedding) and part not in schemes:
            describe(part.weight, WEIGHTS)
        if isinstance(part, nn.Linear) and part not in schemes and part.bias is not None:
            nn.init.zeros_(part.bias)
    redraw(model.named_parameters(), seed)
    attention: Any = encoder.layers[0].attention
    widths = attention.widths
    parts = attention.project.weight.detach().split(list(widths.values())) if widths else ()
    maps = dict(zip(widths, parts, strict=True))
    for scheme in encoder.position.modules():
        if isinstance(scheme, Scheme):
            scheme.begin(maps.get("q"), maps.get("k"))


def build(
    size: Mapping[str, Any],
    position: Position,
    vocabulary: int,
    conv: Callable[[Shape], Conv] | None = None,
    kernel: kernels.Name = "auto",
    head: HeadSettings | None = None,
) -> Any:
    """A `MaskedLM`, or the network that `head` describes. `size` holds the encoder's keyword
    arguments.

    All randomness follows from torch's generator.
    """
    # Before the network is built, so that it does not depend on how much that draws.
    seed = int(torch.randint(1 << 62, (), device="cpu"))
    encoder = Encoder(
        position,
        conv,
        vocabulary=vocabulary,
        kernel=kernel,
        **{str(key): size[key] for key in size},
    )
    model = _with_head(encoder, head or {})
    initialise(model, seed)
    return model


def _with_head(encoder: Encoder, head: HeadSettings) -> Network:
    kind, hidden = head.get("kind", "masked_lm"), encoder.shape.hidden
    if head.get("pooler"):
        encoder.pooler = nn.Linear(hidden, hidden)
    if kind == "masked_lm":
        return MaskedLM(encoder, head.get("activation"), head.get("tied", True))
    if kind == "replaced_tokens":
        return ReplacedTokens(encoder)
    return (
        Classifier(encoder, head["outputs"], kind=head.get("classifier", "plain"))
        if kind == "classifier"
        else encoder
    )


def count(model: Network) -> dict[str, Any]:
    """Trainable parameters: {"total", "position", "parts"}; tied ones are counted once, in the
    first part that has them.

    The head is all that belongs to no other part, a pooler included. The norm behind the last layer
    counts among the layers.
    """
    encoder = encoder_of(model)
    parts = {
        "words": encoder.embedding.words,
        "token_types": encoder.embedding.types,
        "embedding_norm": encoder.embedding.norm,
        "embedding_projection": encoder.embedding.widen,
        "position": encoder.position,
        "layers": encoder.layers,
    }
    total, numbers = _parameters(model), {name: _parameters(part) for name, part in parts.items()}
    numbers["layers"] += _parameters(encoder.norm)
    return {
        "total": total,
        "position": numbers["position"],
        "parts": numbers | {"head": total - sum(numbers.values())},
    }


def _parameters(module: nn.Module | None) -> int:
    parameters = () if module is None else module.parameters()
    return sum(parameter.numel() for parameter in parameters if parameter.requires_grad)

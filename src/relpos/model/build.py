"""Builds a network from its architecture, initialises it, puts other heads on it, and counts its
parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from relpos.errors import RelposError
from relpos.model import kernels
from relpos.model.architecture import Architecture, ClassifierKind, HeadOptions
from relpos.model.conv import Conv
from relpos.model.encoder import Encoder, encoder_of
from relpos.model.heads import Classifier, MaskedLM, ReplacedTokens
from relpos.model.initial import Distribution, describe, redraw
from relpos.model.position.base import Position, Scheme
from relpos.model.shape import Shape
from relpos.trust import constructor

WEIGHTS = Distribution(0.0, 0.02, gaussian=True)
"""Distribution of the initial weights of linear maps and embeddings."""

Network = MaskedLM | ReplacedTokens | Classifier | Encoder
MOST = 10**13
"""Parameters; a network of more is a typing mistake."""


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


def build(architecture: Architecture, kernel: kernels.Name = "auto", filled: bool = True) -> Any:
    """The network of an architecture, with the weights that follow from torch's present seed.

    Args:
        filled: false leaves the parameters without memory (torch's device `meta`), until those of a
            file are assigned. Only the position scheme has values all the same: it holds numbers
            that no file stores, and parameters that the file may lack.

    Raises:
        RelposError: a class named by `_target_` is none that a file may name, or refuses its
            arguments.
    """
    position = constructor(architecture.position, "position")
    conv = constructor(architecture.conv, "conv")
    if filled:
        return assembled(architecture, position, conv, kernel)

    def with_values(shape: Shape) -> Scheme:
        with torch.device("cpu"):
            scheme: Scheme = position(shape)
        return scheme

    with torch.device("meta"):
        return assembled(architecture, with_values, conv, kernel)


def assembled(
    architecture: Architecture,
    position: Position,
    conv: Callable[[Shape], Conv] | None = None,
    kernel: kernels.Name = "auto",
) -> Any:
    """The same of a position scheme and a convolution that are classes already."""
    # Before the network is built, so that it does not depend on how much that draws.
    seed = int(torch.randint(1 << 62, (), device="cpu"))
    vocabulary = architecture.vocabulary
    head = architecture.head
    encoder = Encoder(architecture.size, position, conv, vocabulary=vocabulary, kernel=kernel)
    if head.pooler:
        encoder.pooler = nn.Linear(encoder.shape.hidden, encoder.shape.hidden)
    model: Network = encoder
    if architecture.outputs:
        model = Classifier(encoder, architecture.outputs, kind=head.classifier)
    elif head.kind == "masked_lm":
        model = MaskedLM(encoder, head.activation, head.tied)
    elif head.kind == "replaced_tokens":
        model = ReplacedTokens(encoder)
    model.architecture = architecture
    initialise(model, seed)
    return model


def classifier_on(
    model: Any,
    outputs: int,
    dropout: float,
    kind: ClassifierKind = "plain",
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
    new.architecture = replace(
        model.architecture,
        head=HeadOptions(classifier=kind),
        outputs=outputs,
    )
    _draw_head(new, seed)
    if isinstance(model, Classifier):
        pooler = model.pooler
    if pooler is not None:
        new.pooler.load_state_dict(pooler.state_dict())
    return new


def masked_lm_on(model: Any) -> MaskedLM:
    """The model itself if it is a masked language model; otherwise its encoder with a new head,
    drawn from torch's present seed."""
    encoder = encoder_of(model)
    before = model.architecture
    encoder.pooler = None  # nothing would train it
    if isinstance(model, MaskedLM):
        model.architecture = replace(before, head=replace(before.head, pooler=False))
        return model
    seed = int(torch.randint(1 << 62, (), device="cpu"))
    new = MaskedLM(encoder)
    new.architecture = before.encoder
    describe(new.head.narrow.weight, WEIGHTS)
    if new.head.narrow.bias is not None:
        nn.init.zeros_(new.head.narrow.bias)
    _draw_head(new, seed)
    return new


def _draw_head(model: nn.Module, seed: int) -> None:
    parameters = model.named_parameters()
    redraw((pair for pair in parameters if not pair[0].startswith("encoder.")), seed)


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
        self,
        function: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.nn.init.normal_:
            return kwargs["tensor"]
        return args[0] if function is torch.Tensor.normal_ else function(*args, **kwargs)


def counted(architecture: Architecture) -> dict[str, Any]:
    """The `count` of a network that is never filled."""
    with without_memory():
        return count(build(architecture))


def count(model: Network) -> dict[str, Any]:
    """Trainable parameters: {"total", "position", "parts"}; tied ones are counted once, in the
    first part that has them.

    The head is all that belongs to no other part, a pooler included. The norm behind the last layer
    counts among the layers.

    Raises:
        RelposError: there are more than `MOST`.
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
    total = _parameters(model)
    numbers = {name: _parameters(part) for name, part in parts.items()}
    if total > MOST:
        raise RelposError(f"{total:.2e} parameters: more than {MOST:.0e} are too many")
    numbers["layers"] += _parameters(encoder.norm)
    return {
        "total": total,
        "position": numbers["position"],
        "parts": numbers | {"head": total - sum(numbers.values())},
    }


def _parameters(module: nn.Module | None) -> int:
    parameters = () if module is None else module.parameters()
    return sum(parameter.numel() for parameter in parameters if parameter.requires_grad)

"""Replaces the positions of a trained network (Wennberg & Henter 2021, Section 5 and Appendix
C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.model.conv import Conv
from relpos.model.encoder import Encoder
from relpos.model.position.absolute import Absolute
from relpos.model.position.merge import Merge
from relpos.model.position.none import NoPosition
from relpos.model.position.tisa import Tisa
from relpos.model.shape import Shape


@torch.no_grad()
def average_positions(encoder: Encoder) -> None:
    """Replaces every row of the position table by the mean row: tokens become a bag of words.

    Raises:
        RelposError: the network has no table of position embeddings.
    """
    table = position_table(encoder)
    table.copy_(table.double().mean(0).to(table.dtype).expand_as(table))


@torch.no_grad()
def fold_positions(encoder: Encoder) -> None:
    """Gives the same network as `average_positions`, but without a table: the mean row is added to
    the rows of the token types.

    Sequences may then have any length.

    Raises:
        RelposError: the network has no table of position embeddings, or more than a table; or it
            has no token types.
    """
    if not isinstance(encoder.position, Absolute):
        raise RelposError(
            f"{type(encoder.position).__name__} is more than a table of position embeddings: it "
            f"cannot be folded away"
        )
    table = position_table(encoder)
    types = token_types(encoder)
    types.add_(table.double().mean(0).to(types.dtype))
    encoder.position = NoPosition(_shape(encoder))


def add_tisa(encoder: Encoder, functions: int, reused: bool = False) -> Tisa:
    """Adds TISA to the network's position scheme, with initial values as the authors released them;
    returns the new module.

    If its amplitudes are then set to zero, the network computes the same as before, to the last
    bit.

    Args:
        functions: S.
        reused: one module for all layers instead of one for each layer.

    Raises:
        RelposError: the network has no scores to which TISA could be added, or not those of its
            scheme.
    """
    shape = _shape(encoder)
    tisa = Tisa(shape, functions, reused).to(encoder.embedding.words.weight.device)
    scheme = encoder.position
    # The scheme itself, with its trained parameters, and not a new one of its class.
    both = (
        tisa if isinstance(scheme, NoPosition) else Merge(shape, [lambda _: scheme, lambda _: tisa])
    )
    next(part for part in encoder.modules() if isinstance(part, Conv)).check_position(both)
    encoder.position = both
    return tisa


@torch.no_grad()
def set_tisa(
    tisa: Tisa,
    values: Sequence[Sequence[tuple[ArrayLike, ArrayLike, ArrayLike]]],
) -> None:
    """Fills amplitude, sharpness and centre.

    Args:
        values: for each module (a layer, or one for all) and head: (a, b, c), S numbers each.
    """
    for name, place in (("amplitude", 0), ("sharpness", 1), ("centre", 2)):
        table: Float[Tensor, "modules heads functions"] = getattr(tisa, name)
        table.copy_(
            torch.as_tensor(
                np.array([[head[place] for head in heads] for heads in values]), dtype=table.dtype
            )
        )


def position_table(encoder: Encoder) -> nn.Parameter:
    """The learned table (positions, embedding) that is added to the embeddings.

    Raises:
        RelposError: there is none.
    """
    position = encoder.position
    tables = [part.table for part in position.modules() if isinstance(part, Absolute)]
    if len(tables) != 1:
        raise RelposError(f"{type(position).__name__} is no table of position embeddings")
    return tables[0]


def token_types(encoder: Encoder) -> Tensor:
    """The rows of the token types, to which a row for all positions can be added.

    Raises:
        RelposError: there are none.
    """
    if encoder.embedding.types is None:
        raise RelposError(
            "this network has no token types, to which the mean of its positions could be added"
        )
    return encoder.embedding.types.weight


def _shape(encoder: Encoder) -> Shape:
    # A convolution may have taken heads: the scheme serves those that have scores.
    return replace(encoder.shape, heads=encoder.position.shape.heads)

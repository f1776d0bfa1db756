"""The learned convolution kernels over the offsets −k..k, drawn as in Figure 2 of Chang et al. 2021."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos import style
from relpos.analysis.recording import random_ids, record
from relpos.model.encoder import encoder_of
from relpos.model.position import Terms

_TERMS = ("offset", "query", "key")
_TOKENS = (8, 64)  # sequences × length over which the kernels made from tokens are averaged


@torch.no_grad()
def learned_kernels(model: Any, k: int | None = None) -> list[Float[Tensor, "heads width"]]:
    """A kernel of 2k+1 numbers for each head and layer: what the scheme adds to the score at each offset, summed over its terms.

    A key's kernel is reversed, so that the offset is always that of the attended token. Terms made from tokens are averaged over
    random ones. The list is empty where the scheme has no kernels.

    Args:
        k: None: that of the scheme, or 8 where it has none.
    """
    encoder = encoder_of(model)
    ids = random_ids(encoder, _TOKENS[0], min(_TOKENS[1], encoder.shape.max_positions))
    # By running it: kernels that are made from tokens exist only then.
    layers = [call.terms for call in record(encoder, ids)]
    kernelled = [terms for terms in layers if any(getattr(terms, name) is not None for name in _TERMS)]
    half = int(k if k is not None else getattr(encoder.position, "k", 8))
    return [_sum(terms, half) for terms in kernelled]


def draw_kernels(model: Any, path: str | Path) -> bool:
    """Writes the figure to `path` (its suffix sets the format). Returns whether it did: not where the scheme has no kernels."""
    kernels = learned_kernels(model)
    if not kernels:
        return False
    half = kernels[0].shape[1] // 2
    titles = [f"layer {layer}" for layer, _ in enumerate(kernels, 1)]
    figure, _ = style.by_layer(
        range(-half, half + 1), [heads.tolist() for heads in kernels], titles, "added to the score by each head"
    )
    style.save(figure, Path(path))
    return True


def _sum(terms: Terms, half: int) -> Float[Tensor, "heads 2*{half}+1"]:
    """All terms added up."""
    parts, terms = [], terms.multiplied()
    if terms.offset is not None:
        parts.append(_centre(terms.offset.float().cpu(), half))
    if terms.query is not None:
        parts.append(_centre(terms.query.float().mean((0, 2)).cpu(), half))
    if terms.key is not None:
        # Reversed: a key's kernel counts from the key to the query, see docs/architecture.md.
        parts.append(_centre(terms.key.float().mean((0, 2)).cpu(), half).flip(-1))
    return torch.stack(parts).sum(0)


def _centre(kernel: Float[Tensor, "heads odd"], half: int) -> Float[Tensor, "heads 2*{half}+1"]:
    """The 2·half+1 middle columns of a kernel; NaN where it is narrower."""
    missing = half - kernel.shape[-1] // 2
    if missing > 0:
        return nn.functional.pad(kernel, (missing, missing), value=float("nan"))
    return kernel[:, -missing : kernel.shape[-1] + missing]

"""Networks without their position embeddings, with TISA or with the embeddings' own effect on the scores in their place
(Wennberg & Henter 2021, Appendix C).

Functions that take a network return a changed copy of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from relpos.analysis.profiles import fit_profiles
from relpos.analysis.toeplitz import diagonal_means
from relpos.model.heads import MaskedLM
from relpos.model.position import Merge, Scheme, Terms
from relpos.model.shape import Shape
from relpos.model.surgery import add_tisa, average_positions, fold_positions, set_tisa

Matrices = Sequence[Float[Tensor, "heads n n"]]
"""F̂_P of every layer."""


def averaged(model: MaskedLM) -> MaskedLM:
    """A copy in which every position has the mean row, so that it does not know the order of the tokens."""
    removed = copy.deepcopy(model)
    average_positions(removed.encoder)
    return removed


def with_fitted_tisa(model: MaskedLM, matrices: Matrices, functions: int) -> MaskedLM:
    """A copy with TISA of S functions for each head, fitted to F̂_P of each layer, in place of the position embeddings."""
    bare = _without_positions(model)
    fits = [fit_profiles(heads, functions) for heads in matrices]
    set_tisa(add_tisa(bare.encoder, functions), [[(fit.amplitude, fit.sharpness, fit.centre) for fit in heads] for heads in fits])
    return bare


def with_random_tisa(model: MaskedLM, functions: int, seed: int) -> MaskedLM:
    """A copy with TISA of S functions for each head, as its authors initialise it, in place of the position embeddings."""
    bare = _without_positions(model)
    # The caller's random numbers go on as if nothing had been drawn.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        add_tisa(bare.encoder, functions)
    return bare


def with_matrices(model: MaskedLM, matrices: Matrices) -> MaskedLM:
    """A copy with a matrix for each layer and head, such as F̂_P itself, added to the scores in place of the position embeddings."""
    bare = _without_positions(model)
    scheme = bare.encoder.position
    # A merge builds its parts from the shape alone: hence a function that knows the matrices.
    bare.encoder.position = Merge(scheme.shape, [lambda _: scheme, _Matrices.of(matrices)])
    return bare


def toeplitz_parts(matrices: Matrices) -> list[Float[Tensor, "heads n n"]]:
    """The nearest Toeplitz matrix to each: no choice of TISA's parameters is nearer."""
    token = torch.arange(matrices[0].shape[-1])
    offset = token[None] - token[:, None] + len(token) - 1
    return [torch.stack([torch.from_numpy(diagonal_means(head))[offset] for head in heads]) for heads in matrices]


def _without_positions(model: MaskedLM) -> MaskedLM:
    bare = copy.deepcopy(model)
    fold_positions(bare.encoder)
    return bare


class _Matrices(Scheme):
    """Adds a given matrix to the scores of each layer and head."""

    @classmethod
    def of(cls, matrices: Matrices) -> Callable[[Shape], Scheme]:
        def made(shape: Shape) -> Scheme:
            scheme = cls(shape)
            scheme.matrices = [heads.float() for heads in matrices]
            return scheme

        return made

    matrices: list[Tensor]

    def terms(self, layer: int, q: Tensor, k: Tensor, state: None) -> Terms:
        n = q.shape[2]
        return Terms(dense=self.matrices[layer][None, :, :n, :n].to(q.dtype))

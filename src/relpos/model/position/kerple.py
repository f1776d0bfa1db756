"""Kernelized relative positions (Chi et al. 2022, KERPLE), logarithmic and power variant."""

from __future__ import annotations

from math import inf

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.initial import uniform_
from relpos.model.position.base import Scheme, Terms
from relpos.model.shape import Heads, Shape

LEAST = 0.01


class Kerple(Scheme):
    """T_ij = −p ln(1 + a |i − j|) with positive a and p per head, one set for all layers, added
    after the scaling.

    At the start p ~ U(0, 2) and a ~ U(0, 1). Values less than 0.01 count as 0.01, and training sets
    them to it before each update, as the authors' code before each use: a value left below would
    have no gradient to come back by.

    Parameters: 2·H

    Differs from the paper: that is causal; here both sides count.

    Example:
        >>> kerple = Kerple(Shape.example())
        >>> _ = kerple.p.data.fill_(1.0), kerple.a.data.fill_(1.0)
        >>> kerple.prepare(3)[0].detach()  # −ln(1 + |o|)
        tensor([-1.0986, -0.6931, -0.0000, -0.6931, -1.0986])
    """

    asks = "offsets"
    by_token = True
    most = inf  # of p

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.p = uniform_(nn.Parameter(torch.empty(shape.heads)), 0, 2)
        self.a = uniform_(nn.Parameter(torch.empty(shape.heads)), 0, 1)

    def begin_step(self, step: int) -> None:
        """Stored values within their bounds, where a clamp still passes gradients."""
        with torch.no_grad():
            self.p.clamp_(LEAST, self.most)
            self.a.clamp_(LEAST)

    def prepare(self, n: int) -> Float[Tensor, "heads 2*{n}-1"]:
        """β (H, 2n−1)."""
        dtype = torch.promote_types(self.a.dtype, torch.float32)
        distance = self.offsets(n, self.a.device).abs().to(dtype)
        # Again, because the update may have left the bounds, and evaluation begins no step.
        p = self.p.to(dtype).clamp(LEAST, self.most)
        a = self.a.to(dtype).clamp(LEAST)
        return self.bias(distance, p[:, None], a[:, None])

    def bias(
        self,
        distance: Float[Tensor, "offsets"],
        p: Float[Tensor, "heads 1"],
        a: Float[Tensor, "heads 1"],
    ) -> Float[Tensor, "heads offsets"]:
        """distance (2n−1,), p and a (H, 1) → (H, 2n−1)"""
        return -p * torch.log1p(a * distance)

    def terms(self, layer: int, q: Heads, k: Heads, state: Float[Tensor, "heads offsets"]) -> Terms:
        return Terms(offset=state)

    def count(self, shape: Shape) -> int:
        return 2 * shape.heads


class KerplePower(Kerple):
    """T_ij = −a |i − j|^p, 0 < p ≤ 2; all else as in the logarithmic variant.

    Parameters: 2·H

    Example:
        >>> kerple = KerplePower(Shape.example())
        >>> _ = kerple.p.data.fill_(2.0), kerple.a.data.fill_(1.0)
        >>> kerple.prepare(3)[0].tolist()  # −o²
        [-4.0, -1.0, -0.0, -1.0, -4.0]
    """

    most = 2.0

    def bias(
        self,
        distance: Float[Tensor, "offsets"],
        p: Float[Tensor, "heads 1"],
        a: Float[Tensor, "heads 1"],
    ) -> Float[Tensor, "heads offsets"]:
        return -a * distance**p

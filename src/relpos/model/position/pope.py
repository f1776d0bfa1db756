"""Polar positions (Gopalakrishnan et al. 2025, PoPE): content makes lengths, offsets make
angles."""

from __future__ import annotations

from math import pi

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from relpos.model.initial import uniform_
from relpos.model.position.base import Scheme
from relpos.model.shape import Heads, Shape, Turned
from relpos.ranges import Positive, checked

# cosines and sines for queries, and for keys
State = tuple[Float[Tensor, "n turned_dim"], Float[Tensor, "heads n turned_dim"]]


class Pope(Scheme):
    """s_ij = Σ_c softplus(q_ic) softplus(k_jc) cos((j − i) θ_c + δ_hc) / √head_dim with θ_c =
    base^(−c/head_dim): each channel is a complex number, whose length is the token's and whose
    angle is the place's. δ from −2π to 0 belongs to a head, the same in all layers, and says at
    which offset a channel's keys count most. Values are not turned. Runs at any length.

    Queries and keys become twice as wide, one number with the cosine and one with the sine, and
    attention kernels are given values as wide, so that products with them cost twice as much.
    Angles are float64 up to δ, products float32 (float64 in a model of float64), whatever q and k
    are.

    At the start δ = 0: the scores depend on the tokens and on the distance, not on the direction.
    Training sets δ to its bounds before each update, as the public code does before each use.

    `uniform=true` starts with δ ~ U(−2π, 0).

    Parameters: H·d_h

    Differs from the paper: a decoder, which knows the left side alone. Layers share δ as in
    `PoPE-pytorch`.

    Example:
        >>> pope, q = Pope(Shape.example()), torch.zeros(1, 2, 3, 4)
        >>> q, k, _ = pope.turn(0, q, q, q, pope.prepare(3))
        >>> q.shape, (q @ k.transpose(-1, -2))[0, 0, 0].detach()  # 4 · ln² 2 at the offset 0, and less at 1 and 2
        (torch.Size([1, 2, 3, 8]), tensor([1.9218, 1.6985, 1.2317]))
    """

    asks = "positions"
    widens = True

    @checked
    def __init__(self, shape: Shape, base: Positive = 10000.0, uniform: bool = False) -> None:
        super().__init__(shape)
        self.base = float(base)
        self.shift = nn.Parameter(torch.zeros(shape.heads, shape.head_dim))  # δ
        if uniform:
            uniform_(self.shift, -2 * pi, 0)
        # θ
        self.keep_exact(
            "wave",
            self.base ** (-torch.arange(shape.head_dim, dtype=torch.float64) / shape.head_dim),
        )

    def begin_step(self, step: int) -> None:
        """Stored values within their bounds, where a clamp still passes gradients."""
        with torch.no_grad():
            self.shift.clamp_(-2 * pi, 0)

    def prepare(self, n: int) -> State:
        wave = self.exact("wave")
        angle = self.positions(n, wave.device)[:, None] * wave
        # Again, because the update may have left the bounds, and evaluation begins no step.
        shifted = angle + self.shift.clamp(-2 * pi, 0)[:, None]
        return torch.cat((angle.cos(), angle.sin()), -1), torch.cat(
            (shifted.cos(), shifted.sin()),
            -1,
        )

    def turn(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        v: Heads,
        state: State,
    ) -> tuple[Turned, Turned, Heads]:
        dtype = torch.promote_types(q.dtype, torch.float32)
        q, k = (
            # Each channel stands once for its cosine and once for its sine.
            functional.softplus(x.to(dtype)).repeat(1, 1, 1, 2) * turns.to(dtype)
            for x, turns in zip((q, k), state, strict=True)
        )
        return q, k, v

    def count(self, shape: Shape) -> int:
        return shape.heads * shape.head_dim

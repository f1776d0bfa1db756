"""Rotary positions (Su et al. 2021, RoPE, Eq. 34)."""

from __future__ import annotations

import torch
from jaxtyping import Complex
from torch import Tensor

from relpos.errors import RelposError
from relpos.model.position.base import Scheme
from relpos.model.shape import Heads, Shape
from relpos.ranges import Positive, checked


class Rope(Scheme):
    """(q_p)_m ↦ e^(i p θ_m) (q_p)_m with θ_m = base^(−2m/head_dim), k_p likewise; the complex (q_p)_m are channels (2m, 2m+1).
    Turned so in every layer; values are not, and the scale follows. q_i·k_j then depends on the tokens and on j − i. No parameters,
    any length.

    Neighbouring channels make a pair, as in the paper. Later code that pairs m with m + head_dim/2 is the same model up to a
    permutation of channels. Angles are float64, products float32 (float64 in a model of float64), whatever q and k are.

    `values=true` turns v as well, as some published RoFormers do; the output then depends on absolute positions too.

    Parameters: 0

    Raises:
        RelposError: head_dim is odd.

    Example:
        >>> rope = Rope(Shape.example())
        >>> q = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(1, 2, 3, 4)
        >>> rope.turn(0, q, q, q, rope.prepare(3))[0][0, 0, :, :2]  # (cos p, sin p) at positions p = 0, 1, 2
        tensor([[ 1.0000,  0.0000],
                [ 0.5403,  0.8415],
                [-0.4161,  0.9093]])
    """

    @checked
    def __init__(self, shape: Shape, base: Positive = 10000.0, values: bool = False) -> None:
        super().__init__(shape)
        self.values = values
        if shape.head_dim % 2:
            raise RelposError(f"Rope turns pairs of channels: head_dim = hidden / heads must be even, not {shape.head_dim}")
        steps = float(base) ** (-torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim)
        self.keep_exact("wave", steps)  # (head_dim / 2,) the angle from one position to the next

    def prepare(self, n: int) -> Complex[Tensor, "{n} pairs"]:
        """The turn of each position and pair of channels."""
        wave = self.exact("wave")
        angle = torch.arange(n, device=wave.device, dtype=wave.dtype)[:, None] * wave
        return torch.polar(torch.ones_like(angle), angle)

    def turn(self, layer: int, q: Heads, k: Heads, v: Heads, state: Complex[Tensor, "n pairs"]) -> tuple[Heads, Heads, Heads]:
        dtype = torch.promote_types(q.dtype, torch.float32)
        turns = state.to(dtype.to_complex())
        if self.values:
            v = turned(v.to(dtype), turns).to(v.dtype)
        return turned(q.to(dtype), turns), turned(k.to(dtype), turns), v


def turned(x: Heads, turns: Complex[Tensor, "n head_dim/2"]) -> Heads:
    """x, each pair of channels turned."""
    # Contiguous here, so that the attention kernel, which would else make the same copy, need not.
    pairs = torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2)

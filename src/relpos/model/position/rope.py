"""Rotary positions (Su et al. 2021, RoPE, Eq. 34)."""

from __future__ import annotations

import torch
from jaxtyping import Complex
from torch import Tensor

from relpos.errors import RelposError
from relpos.model.position.base import Scheme
from relpos.model.shape import Heads, Shape
from relpos.ranges import Fraction, Positive, checked


class Rope(Scheme):
    """(q_p)_m ↦ e^(i p θ_m) (q_p)_m with θ_m = base^(−2m/head_dim), k_p likewise; the complex
    (q_p)_m are channels (2m, 2m+1). Turned so in every layer; values are not, and the scale
    follows. q_i·k_j then depends on the tokens and on j − i. No parameters, any length.

    Neighbouring channels make a pair, as in the paper. Later code that pairs m with m + head_dim/2
    is the same model up to a permutation of channels. Angles are float64, products float32 (float64
    in a model of float64), whatever q and k are.

    `values=true` turns v as well, as some published RoFormers do; the output then depends on
    absolute positions too.

    `fraction` below 1 gives p-RoPE (Barbero et al. 2025, "Round and round we go! What makes rotary
    positional encodings useful?"): θ_m = 0 for m ≥ ⌊fraction · head_dim/2⌋, so that the slowest
    pairs, which hardly turn, carry content alone. The angles of the others stay as they are; in
    GPT-NeoX, whose rotary part is narrower too, they depend on its width.

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

    asks = "positions"

    @checked
    def __init__(
        self,
        shape: Shape,
        base: Positive = 10000.0,
        values: bool = False,
        fraction: Fraction = 1.0,
    ) -> None:
        super().__init__(shape)
        self.base, self.values, self.fraction = float(base), values, fraction
        if shape.head_dim % 2:
            raise RelposError(
                f"Rope turns pairs of channels: head_dim = hidden / heads must be "
                f"even, not {shape.head_dim}"
            )
        pairs = int(fraction * shape.head_dim / 2 + 1e-9)  # 0.58 · 100 / 2 is below 29 in binary
        steps = self.base ** (
            -torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
        )
        steps[pairs:] = 0
        self.keep_exact("wave", steps)  # (head_dim / 2,) the angle from one position to the next

    def prepare(self, n: int) -> Complex[Tensor, "{n} pairs"]:
        """The turn of each position and pair of channels."""
        wave = self.exact("wave")
        angle = self.positions(n, wave.device)[:, None] * wave
        return torch.polar(torch.ones_like(angle), angle)

    def turn(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        v: Heads,
        state: Complex[Tensor, "n pairs"],
    ) -> tuple[Heads, Heads, Heads]:
        dtype = torch.promote_types(q.dtype, torch.float32)
        # Angles of far positions need float64; their cosines and sines do not.
        turns = state.to(torch.promote_types(dtype, torch.complex32))
        if self.values:
            v = turned(v.to(dtype), turns).to(v.dtype)
        return turned(q.to(dtype), turns), turned(k.to(dtype), turns), v


def turned(x: Heads, turns: Complex[Tensor, "*each n head_dim/2"]) -> Heads:
    """x, each pair of channels turned."""
    # Contiguous here, so that the attention kernel, which would else make the same copy, need not.
    pairs = torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2)

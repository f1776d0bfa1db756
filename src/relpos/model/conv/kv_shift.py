"""Keys and values that take over a part of their neighbours'."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.conv.base import Conv
from relpos.model.conv.window import hide, weighted
from relpos.model.shape import Hidden, Mask, Shape
from relpos.ranges import checked


class KvShift(Conv):
    """KV-shift (Xu et al. 2024, "KV shifting attention", with the gates by token that Lin et al.
    2025 have in FoX):

        k_i ← α_i k_{i−1} + γ_i k_{i+1} + (1 − α_i − γ_i) k_i
        (α_i, γ_i, 1 − α_i − γ_i) = softmax(w·x_i, u·x_i, 0)          w, u (d) per head

    and v_i likewise, with w and u of its own; x is what the attention reads. Neighbours outside the
    sequence and at padding count as 0. w and u start from N(0, 0.02), so that at first a third
    comes from each.

    `right=false` leaves γ out, so that α_i = σ(w·x_i), as in the published decoders; it is the same
    token on the left alone.

    Parameters: 2·L·H·d·(1 + right)

    Differs from the authors' code: a decoder, which has no token on the right.

    Example:
        >>> shift = KvShift(Shape.example(), right=False)
        >>> _ = shift.gates["v"].weight.data.zero_()  # half of the token before
        >>> v = torch.tensor([2.0, 4.0, 8.0])[None, :, None].expand(1, 3, 8)
        >>> shift.act("v", v, torch.zeros(1, 3, 8), None)[0, :, 0].tolist()
        [1.0, 3.0, 6.0]
    """

    places = frozenset("kv")

    @checked
    def __init__(self, shape: Shape, right: bool = True) -> None:
        super().__init__(shape)
        self.right = self.reads_ahead = right
        self.gates = nn.ModuleDict(
            {
                place: nn.Linear(shape.hidden, shape.heads * (1 + right), bias=False)
                for place in "kv"
            }
        )

    def act(
        self,
        place: str,
        y: Float[Tensor, "batch n channels"],
        x: Hidden,
        mask: Mask | None,
    ) -> Float[Tensor, "batch n channels"]:
        # (B, H, n, 1 or 2)
        logits = self.gates[place](x).unflatten(2, (self.shape.heads, -1)).transpose(1, 2)
        # A softmax does not see what is added to all logits, so that the token itself needs none of
        # its own.
        itself = torch.zeros_like(logits[..., :1])
        weights = torch.softmax(torch.cat((logits[..., :1], itself, logits[..., 1:]), -1), -1)
        # A window has two sides: the right one weighs nothing.
        if not self.right:
            weights = torch.cat((weights, itself), -1)
        shifted = weighted(
            weights,
            hide(y, mask).unflatten(2, (self.shape.heads, -1)).transpose(1, 2),
        )
        return shifted.transpose(1, 2).flatten(2)

    def count(self, shape: Shape) -> int:
        return 2 * shape.hidden * shape.heads * (1 + self.right)

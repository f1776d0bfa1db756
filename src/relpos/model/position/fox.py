"""Forget gates in the scores (Lin et al. 2025, Forgetting Transformer), with gates of their own for
the right side."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from relpos.model.initial import normal_
from relpos.model.position.base import Input, Scheme, Terms
from relpos.model.shape import Heads, Shape
from relpos.ranges import checked

Sums = Float[Tensor, "batch heads n"]


class Fox(Scheme):
    """T_ij = Σ_{j<l≤i} ln f_l + Σ_{i<l≤j} ln g_l with f_l = σ(w_h·x_l + b_h): one of the sums is
    empty. f weakens what is to the left of i, and g, which has weights of its own, what is to the
    right. x is the layer's normed input. Gates belong to a head and a layer. T is not scaled.
    Padding has no gate. Runs at any length.

    With the running sums F of ln f and G of ln g, T is F_i − F_j on the left and G_j − G_i on the
    right: kernels of width 3. The sums are float32 (float64 in a model of float64): the difference
        of two long ones means nothing in bfloat16.

    At the start w ~ N(0, 0.02) and b = `bias`: with 0 each token halves what it stands before, with
    5 it leaves 0.993 of it. A constant gate is ALiBi with the slope −ln f.

    Parameters: 2·L·H·(d + 1)

    Differs from the paper: a decoder, which knows the left side alone. The right side is that of
    `DataDependentAlibi(causal=False)` in x-transformers, which starts with b = 5. Its sum has the
    gate of the key and not that of the query, so that the later token of a pair has its gate in the
    sum on both sides. Therefore fox breaks the law of direction (architecture.md#laws): with f and
    g exchanged, a reversed text has other outputs than the reversed ones.

    Example:
        >>> q, sums = torch.zeros(1, 1, 3, 4), torch.tensor([[[-1.0, -3.0, -4.0]]])  # ln f = ln g of three tokens: −1, −2, −1
        >>> terms = Fox(Shape.example()).terms(0, q, q, (sums, sums))
        >>> [(terms.query[0, 0, i, 0] + terms.key[0, 0, j, 2]).item() for i, j in ((1, 0), (2, 0), (2, 1))]  # T_10, T_20, T_21
        [-2.0, -3.0, -1.0]
    """

    paired = True  # F_i and −F_j

    @checked
    def __init__(self, shape: Shape, bias: float = 0.0) -> None:
        super().__init__(shape)
        both = 2 * shape.heads  # the gates of the left side, then those of the right
        self.gates = normal_(nn.Parameter(torch.empty(shape.layers, both, shape.hidden)), 0.02)
        self.gate_bias = nn.Parameter(torch.full((shape.layers, both), float(bias)))

    def see(self, layer: int, given: Input, state: None) -> tuple[Sums, Sums]:
        """F and G."""
        gates = functional.linear(given.x, self.gates[layer], self.gate_bias[layer])
        logs = functional.logsigmoid(gates.to(torch.promote_types(gates.dtype, torch.float32)))
        # ln f = 0 at padding, over which the sums go on unchanged.
        left, right = (
            given.zero_padding(given.held.spread(logs)).cumsum(1).transpose(1, 2).chunk(2, 1)
        )
        return left, right

    def terms(self, layer: int, q: Heads, k: Heads, state: tuple[Sums, Sums]) -> Terms:
        left, right = state
        # A window of k = 1 that is clamped: its columns are all that is to the left, the token
        # itself, all that is to the right.
        none = torch.zeros_like(left)
        # Kernels of keys are read at i − j: the queries behind a key are its right column.
        return Terms(
            query=torch.stack((left, none, -right), -1),
            key=torch.stack((right, none, -left), -1),
        )

    def count(self, shape: Shape) -> int:
        return 2 * shape.layers * shape.heads * (shape.hidden + 1)

"""Sinusoidal offsets that each layer maps to keys (Dai et al. 2019, Transformer-XL), as XLNet has
them on both sides."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.initial import normal_
from relpos.model.position.base import Scheme, Terms
from relpos.model.shape import Heads, Shape

State = Sequence[Float[Tensor, "heads head_dim offsets"]]  # for each layer, scaled


class XL(Scheme):
    """s_ij = ((q_i + u)·k_j + (q_i + v)·W_R r_{i−j}) / √head_dim with u and v per head and layer,
    and W_R (H·head_dim × d) for each layer.

    r_p holds sin(p / 10000^(2m/d)) for m = 0, 1, …, d/2 − 1, then the cosines. u, v and W_R are
    N(0, 0.02); there are no biases. u is added where queries are turned, the rest is a kernel of
    each query over all offsets. Runs at any length.

    Parameters: L·(d² + 2·d)

    Differs from the paper: that is a decoder, which knows the left side alone, and reads the states
    of the segment before. There u and v serve all layers; the authors' released configurations
    (`untie_r`) and XLNet give each layer its own.

    Differs from the authors' code: XLNet's adds a term that says whether both tokens are of one
    sentence.

    Example:
        >>> xl = XL(Shape.example())
        >>> xl.weight.shape, xl.u.shape, xl.v.shape
        (torch.Size([2, 8, 8]), torch.Size([2, 2, 4]), torch.Size([2, 2, 4]))
        >>> xl.waves(2)[:, 0]  # sin(i − j) for the offsets j − i = −1, 0, 1
        tensor([ 0.8415,  0.0000, -0.8415], dtype=torch.float64)
    """

    asks = "offsets"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        width = shape.heads * shape.head_dim
        self.weight = normal_(nn.Parameter(torch.empty(shape.layers, width, shape.hidden)), 0.02)
        self.u = normal_(nn.Parameter(torch.empty(shape.layers, shape.heads, shape.head_dim)), 0.02)
        self.v = normal_(nn.Parameter(torch.empty(shape.layers, shape.heads, shape.head_dim)), 0.02)
        steps = 10000.0 ** (-torch.arange(0, shape.hidden, 2, dtype=torch.float64) / shape.hidden)
        self.keep_exact("wave", steps)  # (⌈d/2⌉,) the angle from one position to the next

    def waves(self, n: int) -> Float[Tensor, "2*{n}-1 hidden"]:
        """r of the offsets 1−n … n−1; r_p where the offset is −p."""
        wave = self.exact("wave")
        angle = -self.offsets(n, wave.device)[:, None] * wave
        # An odd width has one cosine less.
        return torch.cat((angle.sin(), angle.cos()), 1)[:, : self.shape.hidden]

    def prepare(self, n: int) -> State:
        """W_R r of all layers at once."""
        # The waves of near offsets differ by less than bfloat16 can tell.
        with torch.autocast(self.weight.device.type, enabled=False):
            vectors = (
                self.weight @ self.waves(n).to(self.weight.dtype).t() * self.shape.head_dim**-0.5
            )
        return vectors.unflatten(1, (self.shape.heads, -1)).unbind(0)

    def turn(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        v: Heads,
        state: State,
    ) -> tuple[Heads, Heads, Heads]:
        return q + self.u[layer, :, None].to(q.dtype), k, v

    def terms(self, layer: int, q: Heads, k: Heads, state: State) -> Terms:
        # Kernels as wide as the sequence: nothing is outside.
        return Terms(
            query=q + self.v[layer, :, None].to(q.dtype),
            query_table=state[layer].to(q.dtype),
            outside="zero",
        )

    def count(self, shape: Shape) -> int:
        return shape.layers * (shape.hidden + 2) * shape.heads * shape.head_dim

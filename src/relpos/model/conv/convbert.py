"""ConvBERT: half of the heads are ordinary, half are dynamic convolutions."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from relpos.errors import RelposError
from relpos.model.conv.base import Conv
from relpos.model.conv.separable import SeparableConv
from relpos.model.conv.window import hide, weighted
from relpos.model.dropout import Draw, drop
from relpos.model.kernels.eager import masked
from relpos.model.shape import Heads, Hidden, Mask, Shape
from relpos.ranges import Count, checked

Owner = Literal["query", "key"]
Edges = Literal["renormalise", "zero"]


class ConvBert(Conv):
    """Jiang et al. 2020, "ConvBERT", Section 3, as Chang et al. 2021 ran it (Tables 6 and 7):

        r_i = W (c_i ⊙ q_i) + b                           (heads/2, width), c = separable convolution of the layer's input
        y_i = Σ_{j = i−k..i+k} w_ij v_j                   width = 2k+1, in each head of the second half
        w_ij = softmax_j(r_i[j − i])                      kernel_from=query, as the paper has it
        w_ij = softmax_j(r_j[j − i])                      kernel_from=key, as Chang et al. ran it: read at the attended token

    The first half of the heads are ordinary ones, with any position scheme; q_i are their queries,
    before scaling. The entry after the middle one stands for the next token, j = i + 1, whoever
    owns the kernel.

    `edges=renormalise`, as Chang et al. ran it: the softmax over j leaves out what is padding or
    outside the sequence. `edges=zero`, as in the paper: the softmax over all entries of r comes
    first, at the token that owns it; what is read at padding or outside the sequence then counts as
    0.

    `bias=false` leaves the bias out of the depthwise convolution, as in the original code; Chang et
    al. have it.

    Parameters: L·(d·(width+bias) + d/2·(d+1) + H/2·width·(d/2+1))

    Differs from the paper: attention dropout acts on w, the depthwise convolution has a bias and
    the values of all heads come from one map, all three as in the code of Chang et al.; the last
    one is the same function.

    Example:
        >>> conv = ConvBert(Shape.example(), width=3)
        >>> conv.scored_heads  # the other one is a convolution
        1
        >>> conv.weights(torch.zeros(1, 1, 2, 3), None)[0, 0].tolist()  # of two tokens: each sees itself and the other
        [[0.0, 0.5, 0.5], [0.5, 0.5, 0.0]]
    """

    reads = frozenset("q")

    @checked
    def __init__(
        self,
        shape: Shape,
        width: Count = 9,
        kernel_from: Owner = "query",
        edges: Edges = "renormalise",
        bias: bool = True,
    ) -> None:
        super().__init__(shape)
        if shape.heads % 2:
            raise RelposError(f"conv ConvBert halves the heads, and heads={shape.heads} is odd")
        if width % 2 == 0:
            raise RelposError(f"width must be an odd number, not {width!r}")
        self.kernel_from = kernel_from
        self.edges = edges
        self.width, self.reads_ahead = width, width > 1
        half = shape.heads // 2 * shape.head_dim
        self.key = SeparableConv(shape.hidden, half, width, bias=bias)
        self.kernel = nn.Linear(half, shape.heads // 2 * width)

    @property
    def scored_heads(self) -> int:
        return self.shape.heads // 2

    def heads(
        self,
        x: Hidden,
        q: Heads | None,
        v: Heads,
        mask: Mask | None,
        dropout: Draw | tuple[float, int],
    ) -> Heads:
        # `reads` has asked for them.
        assert q is not None
        # (B, n, heads/2 · width)
        logits = self.kernel(self.key(hide(x, mask)) * q.transpose(1, 2).flatten(2))
        logits = logits.unflatten(2, (-1, self.width)).transpose(1, 2)  # (B, heads/2, n, width)
        weights = self.weights(logits.to(torch.promote_types(logits.dtype, torch.float32)), mask)
        return weighted(drop(weights, dropout), v)

    def weights(
        self,
        logits: Float[Tensor, "batch heads n width"],
        mask: Mask | None,
    ) -> Float[Tensor, "batch heads n width"]:
        """r of each token → w, that of the pair i, j at [i, j − i + k]."""
        n = logits.shape[2]
        k = self.width // 2
        real = torch.ones(1, n, dtype=torch.bool, device=logits.device) if mask is None else mask
        # (1 or B, 1, n, width): j is a real token
        reached = functional.pad(real, (k, k)).unfold(1, self.width, 1)[:, None]
        if self.edges == "zero":
            w = self._read(torch.softmax(logits, -1))
            return w.masked_fill(~reached, 0)
        return torch.softmax(self._read(logits).masked_fill(~reached, masked(logits.dtype)), -1)

    def _read(
        self,
        r: Float[Tensor, "batch heads n width"],
    ) -> Float[Tensor, "batch heads n width"]:
        """What each owner has → of each query: itself, or for [i, o] the entry o of token i + o −
        k."""
        if self.kernel_from == "query":
            return r
        k = self.width // 2
        # Axis 3 is the entry and axis 4 the place in the window: on the diagonal they are alike.
        return functional.pad(r, (0, 0, k, k)).unfold(2, self.width, 1).diagonal(dim1=3, dim2=4)

    def count(self, shape: Shape) -> int:
        half = shape.heads // 2 * shape.head_dim
        bias = self.key.depthwise.bias is not None
        return SeparableConv.count(
            shape.hidden,
            half,
            self.width,
            bias,
        ) + shape.heads // 2 * self.width * (half + 1)

"""Translation-invariant self-attention (Wennberg & Henter 2021, Eqs. 4–6)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.initial import normal_
from relpos.model.position.base import Scheme, Terms
from relpos.model.shape import Heads, Shape
from relpos.ranges import Natural, checked


class Tisa(Scheme):
    """T_ij = f(j − i) with f(o) = Σ_s a_s exp(−|b_s| (c_s − o)²): S radial basis functions per head
    and pass.

    Added after the scaling. A centre c = +1 looks at the next token. 3·S·H·L parameters, whatever
    the length. `kernels` is S, the number of basis functions; with S = 0 nothing but zeros is
    added. Initial values are those of the released module, amplitudes a and sharpnesses b from
    N(0.1, 0.01), centres c from N(0, 5).

    Parameters: 3·S·H·L

    `reused=true`: one module for all layers, 3·S·H parameters. The paper counts twelve modules
    (Table 2) and indexes its parameters by head alone (Section 5).

    Differs from the authors' code: the released module fills its matrix with f(i − j − 1), mirrored
    and one off; here it is the f(j − i) of the paper. A centre trained there stands at −c − 1 here.
    Initial centres are drawn around 0 all the same, the token itself.

    Raises:
        RelposError: `kernels` is not a whole number of 0 or more.

    Example:
        >>> tisa = Tisa(Shape.example(), kernels=1)
        >>> for table, value in ((tisa.amplitude, 2.0), (tisa.sharpness, 999.0), (tisa.centre, 1.0)):
        ...     _ = table.data.fill_(value)
        >>> tisa.prepare(3)[0][0].tolist()  # a sharp bump at the next token
        [0.0, 0.0, 0.0, 2.0, 0.0]
    """

    asks = "offsets"
    by_token = True

    @checked
    def __init__(self, shape: Shape, kernels: Natural = 5, reused: bool = False) -> None:
        super().__init__(shape)
        self.kernels, self.reused = kernels, reused
        sizes = (1 if reused else shape.layers, shape.heads, kernels)
        self.amplitude = normal_(nn.Parameter(torch.empty(sizes)), 0.01, mean=0.1)  # a
        self.sharpness = normal_(nn.Parameter(torch.empty(sizes)), 0.01, mean=0.1)  # b
        self.centre = normal_(nn.Parameter(torch.empty(sizes)), 5.0)  # c

    def prepare(self, n: int) -> tuple[Float[Tensor, "heads 2*{n}-1"], ...]:
        """β (H, 2n−1) of each module."""
        # The difference of a centre and an offset of hundreds needs more digits than bfloat16 has.
        dtype = torch.promote_types(self.centre.dtype, torch.float32)
        # (L, H, S, 1)
        a, b, c = (x[..., None].to(dtype) for x in (self.amplitude, self.sharpness, self.centre))
        o = self.offsets(n, c.device)
        return (a * torch.exp(-b.abs() * (c - o) ** 2)).sum(2).unbind(0)

    def terms(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        state: tuple[Float[Tensor, "heads offsets"], ...],
    ) -> Terms:
        return Terms(offset=state[0 if self.reused else layer])

    def count(self, shape: Shape) -> int:
        return 3 * self.kernels * shape.heads * (1 if self.reused else shape.layers)

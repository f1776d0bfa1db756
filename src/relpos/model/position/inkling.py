"""Kernels that a layer's input makes for its queries (Inkling 2026, as in Transformers'
`modular_inkling.py`), on both sides."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from relpos.model.initial import normal_
from relpos.model.position.base import Input, Scheme, Terms
from relpos.model.shape import Heads, Shape
from relpos.ranges import Count, checked

# what mixes the profiles, and these
State = tuple[Float[Tensor, "batch heads n rank"], Float[Tensor, "rank width"]]


class Inkling(Scheme):
    """T_ij = a_{i, j−i} with a_{i,h} = (W_r x_i)_h P, where x is the layer's normed input: each
    head mixes `rank` profiles over the offsets −extent … extent, and adds nothing beyond. W_r
    (H·rank × d) and P (rank × 2·extent + 1), which heads share, belong to one layer each, N(0,
    0.02). T is not scaled. `extent=null` covers the offsets of max_positions tokens. Runs at any
    length.

    `root=false` divides q·k by head_dim in place of √head_dim, as Inkling does, whose q and k are
    normed.

    Parameters: L·rank·(H·d + 2·(extent if extent else n − 1) + 1)

    Differs from the authors' code: a decoder, which knows the left side alone. It also norms q and
    k, convolves k and v (here that would be `conv=`), and may multiply queries by a factor that
    grows with their position.

    Example:
        >>> inkling = Inkling(Shape.example(), rank=2, extent=3)
        >>> inkling.profiles.shape, inkling.mix.shape  # layers; profiles; offsets −3 … 3, and from which channels
        (torch.Size([2, 2, 7]), torch.Size([2, 4, 8]))
        >>> Inkling(Shape.example(), root=False).scale  # 1 / 4
        0.25
    """

    @checked
    def __init__(
        self,
        shape: Shape,
        rank: Count = 16,
        extent: Count | None = None,
        root: bool = True,
    ) -> None:
        super().__init__(shape)
        self.rank, self.root = rank, root
        self.extent = shape.max_positions - 1 if extent is None else extent
        self.mix = normal_(
            nn.Parameter(torch.empty(shape.layers, shape.heads * rank, shape.hidden)),
            0.02,
        )
        self.profiles = normal_(
            nn.Parameter(torch.empty(shape.layers, rank, 2 * self.extent + 1)),
            0.02,
        )

    @property
    def scale(self) -> float:
        return float(self.shape.head_dim) ** (-0.5 if self.root else -1)

    def prepare(self, n: int) -> Float[Tensor, "layers rank width"]:
        """The profiles over the offsets that n tokens have."""
        width = min(self.extent, n - 1)
        return self.profiles[:, :, self.extent - width : self.extent + width + 1]

    def see(self, layer: int, given: Input, state: Float[Tensor, "layers rank width"]) -> State:
        mixed = given.held.spread(functional.linear(given.x, self.mix[layer]))
        return mixed.unflatten(2, (-1, self.rank)).transpose(1, 2), state[layer]

    def terms(self, layer: int, q: Heads, k: Heads, state: State) -> Terms:
        mixed, profiles = state
        return Terms(query=mixed, query_table=profiles[None], outside="zero")

    def count(self, shape: Shape) -> int:
        return shape.layers * self.rank * (shape.heads * shape.hidden + 2 * self.extent + 1)

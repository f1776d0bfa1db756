"""Positions that flow (Liu et al. 2020, FLOATER): a learned ordinary differential equation carries
each position to the next."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from relpos.model.initial import glorot, normal_
from relpos.model.position.sinusoidal import Sinusoidal
from relpos.model.shape import Heads, Shape
from relpos.ranges import Count, Positive, checked

INTERVAL = 0.01  # time from one position to the next
STEPS = 5  # of the solver, from one position to the next


class Floater(Sinusoidal):
    """q_i + p^q(0.01 i), k_i + p^k(0.01 i), v_i + p^v(0.01 i) in every layer, with dp/dt = g(t, p)
    (section 3); the embeddings are sinusoidal as well, of root mean square `rms` (None: as
    `Sinusoidal` has it).

    One g = W_2 [relu(W_1 [p; t] + b_1); t] + b_2 serves all layers and q, k and v (Xavier normal,
    biases 0); a start p(0) of width heads · head_dim belongs to one layer and one of q, k, v
    (Xavier uniform). All are solved together by torchdiffeq's `rk4`, five steps per position, at
    any length.

    Training calls `begin_step` before each update. `refresh=400`, the authors' way, then solves
    with gradient in one update of 400; in between the vectors stay what they were, while g and p(0)
    go on by their momentum with a gradient of zero. The vectors kept (`cache`, max_positions of
    them; longer sequences are always solved) are part of the state. `refresh=1` solves in every
    update. So does evaluation, which depends on the parameters alone, once for all batches; and so
    does a loop that calls no `begin_step`.

    Parameters: 3·L·d + 2·(d² + 2d)

    Differs from the authors' code: it counts forward passes, this counts updates; it evaluates with
    old vectors and ends at 255 positions; its gradients come from the adjoint equation, solved
    backwards. Here they are those of the solver's own steps: exact, and g is small enough for their
    values to be kept.

    Raises:
        RelposError: `refresh` is not a whole number of 1 or more.

    Example:
        >>> floater, q = Floater(Shape.example()), torch.zeros(1, 2, 3, 4)
        >>> floater.cache.shape  # layers; q, k, v; heads; positions; channels
        torch.Size([2, 3, 2, 16, 4])
        >>> floater.turn(0, q, q, q, (floater.cache[0, :, :, :3] + 1,))[0].sum().item()  # each q_i gets its vector
        24.0
    """

    cache: Float[Tensor, "layers 3 heads max_positions head_dim"] | None

    @checked
    def __init__(self, shape: Shape, refresh: Count = 400, rms: Positive | None = None) -> None:
        super().__init__(shape, rms)
        width = shape.heads * shape.head_dim
        self.refresh, self.solving = refresh, True
        self.start = glorot(3, shape.layers, width, fans=(3 + shape.layers) * width)
        self.first, self.second = (nn.Linear(width + 1, width) for _ in range(2))
        for part in (self.first, self.second):
            normal_(part.weight, math.sqrt(2 / (2 * width + 1)))
            nn.init.zeros_(part.bias)
        sizes = (shape.layers, 3, shape.heads, shape.max_positions, shape.head_dim)
        self.register_buffer("cache", torch.zeros(sizes) if refresh > 1 else None)
        # parameters and their vectors, for evaluation
        self.solved: tuple[list[Tensor], Tensor] | None = None

    asks = None  # its equation is solved from each position to the next
    same_each_step = False

    def begin_step(self, step: int) -> None:
        """Whether this update solves; if so, its vectors are what the next ones see."""
        self.solving = step % self.refresh == 0
        if self.solving and self.cache is not None:
            with torch.no_grad():
                self.cache.copy_(self.solve(self.shape.max_positions))

    def prepare(self, n: int) -> tuple[Float[Tensor, "3 heads {n} head_dim"], ...]:
        """The vectors for q, k and v of each layer."""
        if (
            self.training
            and not self.solving
            and self.cache is not None
            and n <= self.shape.max_positions
        ):
            return self._kept(self.cache[..., :n, :])
        return (self.solve(n) if torch.is_grad_enabled() else self._known(n)).unbind(0)

    def _kept(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """Old vectors, with a gradient of zero for all parameters: optimisers pass over one that
        has none."""
        zero = 0.0 * torch.stack([parameter.sum() for parameter in self.parameters()]).sum()
        return vectors[0] + zero, *vectors[1:].unbind(0)

    def _known(self, n: int) -> Tensor:
        """The solution without gradient; solved again only where the parameters have changed or n
        has outgrown it."""
        now = list(self.parameters())
        if (
            self.solved is None
            or self.solved[1].shape[3] < n
            or not all(map(_same, self.solved[0], now))
        ):
            self.solved = (
                [x.detach().clone() for x in now],
                self.solve(max(n, self.shape.max_positions)),
            )
        return self.solved[1][..., :n, :]

    def solve(self, n: int) -> Float[Tensor, "layers 3 heads {n} head_dim"]:
        """The vectors of the first n positions; those of a longer sequence begin with the same."""
        from torchdiffeq import odeint

        start = self.start.flatten(0, 1)
        start = start.to(torch.promote_types(start.dtype, torch.float32))
        with torch.autocast(start.device.type, enabled=False):
            times = INTERVAL * torch.arange(n, device=start.device, dtype=start.dtype)
            within = INTERVAL / STEPS * torch.arange(STEPS, device=start.device, dtype=start.dtype)
            # Without a grid of its own `rk4` would take a single step from one position to the
            # next.
            grid = torch.cat(((times[:-1, None] + within).flatten(), times[-1:]))
            vectors = odeint(
                self._dynamics(start.dtype),
                start,
                times,
                method="rk4",
                options={"grid_constructor": lambda *_: grid},
            )
        layers = self.shape.layers
        heads = self.shape.heads
        # Layers first: each takes its vectors without a copy.
        return vectors.view(n, 3, layers, heads, -1).permute(2, 1, 3, 0, 4)

    def _dynamics(self, dtype: torch.dtype) -> Callable[[Tensor, Tensor], Tensor]:
        """g(t, p); the weight of t is cut off the matrices once, so that a call need not put t
        beside each p."""
        (w1, t1), (w2, t2) = (
            (x.weight[:, :-1].to(dtype), x.weight[:, -1].to(dtype))
            for x in (self.first, self.second)
        )
        b1 = self.first.bias.to(dtype)
        b2 = self.second.bias.to(dtype)

        def g(t: Tensor, p: Tensor) -> Tensor:
            return functional.linear(
                functional.relu(functional.linear(p, w1, b1 + t * t1)),
                w2,
                b2 + t * t2,
            )

        return g

    def turn(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        v: Heads,
        state: tuple[Float[Tensor, "3 heads n head_dim"], ...],
    ) -> tuple[Heads, Heads, Heads]:
        to_q, to_k, to_v = state[layer].to(q.dtype)
        return q + to_q, k + to_k, v + to_v

    def count(self, shape: Shape) -> int:
        width = shape.heads * shape.head_dim
        return 3 * shape.layers * width + 2 * (width * width + 2 * width)


def _same(a: Tensor, b: Tensor) -> bool:
    return (a.dtype, a.device) == (b.dtype, b.device) and torch.equal(a, b)

"""Which tokens of a batch a tensor holds.

Most of a layer works on one token at a time. Such steps are computed without padding, and in the
last layer only for the tokens that somebody reads.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Tokens:
    """Some tokens of a batch (B, n), or all.

    Args:
        at: (T,) their places, row · n + token, each once; None: all tokens, whose tensors stay (B,
            n, …).
        starts: (B + 1,) if these are the first tokens of each row in order, where in `at` those of
            each begin, and T; None: they may be any.

    Example:
        >>> real = Tokens(2, 3, torch.tensor([0, 1, 2, 3]))
        >>> x = torch.arange(6.0).view(2, 3, 1)
        >>> real.take(x).squeeze(1).tolist()
        [0.0, 1.0, 2.0, 3.0]
        >>> real.spread(real.take(x)).squeeze(2).tolist()
        [[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        batch: int,
        n: int,
        at: Int[Tensor, "tokens"] | None = None,
        starts: Int[Tensor, "ends"] | None = None,
    ) -> None:
        self.batch, self.n, self.at, self.starts = batch, n, at, starts

    @classmethod
    def first(cls, batch: int, n: int, at: Int[Tensor, "tokens"]) -> Tokens:
        """Those at `at`, which are the first ones of each row, in order, all real ones among them.

        >>> Tokens.first(2, 3, torch.tensor([0, 1, 3])).starts.tolist()
        [0, 2, 3]
        """
        return cls(
            batch,
            n,
            at,
            torch.searchsorted(at, torch.arange(0, batch * n + 1, n, device=at.device)),
        )

    def take(self, x: Float[Tensor, "batch n width"]) -> Float[Tensor, "*tokens width"]:
        """(B, n, C) → (T, C)."""
        return x if self.at is None else _Take.apply(x, self.at)

    def spread(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "batch n width"]:
        """(T, C) → (B, n, C), 0 at all other tokens."""
        return x if self.at is None else _Spread.apply(x, self.at, self.batch, self.n)

    def among(
        self,
        held: Tokens,
        x: Float[Tensor, "*held width"],
    ) -> Float[Tensor, "*tokens width"]:
        """x of the tokens `held` → (T, C) of these, which are among them."""
        if self is held:
            return x
        if held.starts is None or held.at is None or self.at is None:
            return self.take(held.spread(x))
        # the first ones of each row stand in order
        return _Take.apply(x[None], torch.searchsorted(held.at, self.at))

    def take_heads(
        self,
        x: Float[Tensor, "batch heads n width"],
    ) -> Float[Tensor, "1 heads tokens width"]:
        """(B, H, n, C) → (1, H, T, C): the tokens in one row."""
        return (
            self.take(x.transpose(1, 2).flatten(2))
            .unflatten(1, x.shape[1::2])
            .transpose(0, 1)[None]
        )

    def spread_heads(
        self,
        x: Float[Tensor, "1 heads tokens width"],
    ) -> Float[Tensor, "batch heads n width"]:
        """(1, H, T, C) → (B, H, n, C), 0 at all other tokens."""
        return (
            self.spread(x[0].transpose(0, 1).flatten(1)).unflatten(2, x.shape[1::2]).transpose(1, 2)
        )


def side_by_side(x: Float[Tensor, "batch n width"], widths: list[int]) -> tuple[Tensor, ...]:
    """x in parts of these widths, as `split` gives them. Where the parts' gradients lie side by
    side, too, they are not copied."""
    if x.device.type == "cpu" or torch.compiler.is_compiling():
        return x.split(widths, -1)
    parts: tuple[Tensor, ...] = _Split.apply(x, widths)
    return parts


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, widths: list[int]) -> tuple[Tensor, ...]:
        ctx.widths = widths
        return x.split(widths, -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        first, total = grads[0], sum(ctx.widths)
        strides = (*first.stride()[:-1], 1)
        place = first.storage_offset()
        for grad, width in zip(grads, ctx.widths, strict=True):
            there = (
                grad.untyped_storage()._cdata == first.untyped_storage()._cdata
                and grad.stride() == strides
            )
            if not (there and grad.storage_offset() == place and strides[-2] == total):
                return torch.cat(grads, -1), None
            place += width
        return first.as_strided((*first.shape[:-1], total), strides, first.storage_offset()), None


def in_batch(columns: Int[Tensor, "batch"], n: int) -> Int[Tensor, "batch"]:
    """One token of each row of a batch (B, n), by its column → by its place in the batch."""
    return torch.arange(columns.shape[0], device=columns.device) * n + columns


def _taken(x: Tensor, at: Tensor) -> Tensor:
    return x.flatten(0, 1).index_select(0, at)


def _spread(x: Tensor, at: Tensor, batch: int, n: int) -> Tensor:
    return x.new_zeros(batch * n, x.shape[1]).index_copy_(0, at, x).view(batch, n, x.shape[1])


class _Take(torch.autograd.Function):
    """Its gradient is written and not summed, because no token is taken twice."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, at: Tensor) -> Tensor:
        ctx.save_for_backward(at)
        ctx.shape = x.shape[:2]
        return _taken(x, at)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _spread(grad, *ctx.saved_tensors, *ctx.shape), None


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, at: Tensor, batch: int, n: int) -> Tensor:
        ctx.save_for_backward(at)
        return _spread(x, at, batch, n)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return _taken(grad, *ctx.saved_tensors), None, None, None

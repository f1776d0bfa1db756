"""Cross-entropy over the vocabulary as one step of differentiation."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from relpos.model.precision import compute_dtype

_ROWS = 64  # logits in float32 exist for this many tokens at a time


class _TiedCrossEntropy(torch.autograd.Function):
    """The gradient with respect to the logits, softmax − one-hot, falls out of the forward pass and is all that is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, words: Tensor, bias: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        dtype = compute_dtype(x)
        x, table, shift = x.to(dtype), words.to(dtype), bias.to(dtype)
        needed = any(ctx.needs_input_grad)
        grad = x.new_empty(len(x), len(table)) if needed else None
        total = x.new_zeros((), dtype=torch.promote_types(dtype, torch.float32))
        right = torch.zeros((), dtype=torch.int64, device=x.device)
        for start in range(0, len(x), _ROWS):
            rows = slice(start, start + _ROWS)
            logits = torch.addmm(shift, x[rows], table.t()).to(total.dtype)
            top, chosen = logits.amax(1), logits.gather(1, target[rows, None]).squeeze(1)
            # argmax is slow; a tie that only number formats make counts as right while training
            right += (chosen == top).sum() if needed else (logits.argmax(1) == target[rows]).sum()
            p = torch.softmax(logits, 1)
            total += (top - p.amax(1).log() - chosen).sum()  # log Σ exp = top − log p(top)
            if grad is not None:
                grad[rows] = p
        if grad is not None:
            grad[torch.arange(len(x), device=x.device), target] -= 1
            ctx.save_for_backward(x, table, grad)
            ctx.types = words.dtype, bias.dtype
        ctx.mark_non_differentiable(right)
        return total, right

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, table, grad = ctx.saved_tensors
        words_type, bias_type = ctx.types
        scale = scale.to(x.dtype)
        return (
            (grad @ table).mul_(scale),
            (grad.t() @ (x * scale)).to(words_type),
            grad.sum(0).to(bias_type).mul_(scale),
            None,
        )


def tied_cross_entropy(
    x: Float[Tensor, "tokens embedding"],
    words: Float[Tensor, "vocabulary embedding"],
    bias: Float[Tensor, "vocabulary"],
    target: Int[Tensor, "tokens"],
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """x (N, E), words (V, E), bias (V,), target (N,) → (Σ −log softmax(x wordsᵀ + bias)[target], number predicted right)."""
    total, right = _TiedCrossEntropy.apply(x, words, bias, target)
    return total, right

"""Cross-entropy over the vocabulary as one step of differentiation."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor
from torch.autograd.function import once_differentiable

from relpos.model.kernels import sweeps
from relpos.model.precision import as_given, compute_dtype

IGNORED = -100
"""The label of a token that is not predicted."""


def _rows_at_once(x: Tensor) -> int:
    """Tokens whose logits exist in float32 at a time: on a CPU as many as its cache holds, on a GPU
    enough to keep it busy."""
    return 64 if x.device.type == "cpu" else 2048


class _TiedCrossEntropy(torch.autograd.Function):
    """The gradient with respect to the logits, softmax − one-hot, is computed by the forward pass,
    which keeps no logits."""

    @staticmethod
    @as_given
    def forward(
        ctx: Any,
        x: Tensor,
        words: Tensor,
        bias: Tensor,
        target: Tensor,
        counts: Tensor | None,
        swept: bool,
    ) -> tuple[Tensor, Tensor]:
        dtype = x.dtype
        if swept:
            # The logits stand where their gradient will.
            grad, table, shift = sweeps.logits(x, words, bias)
            losses, hits = sweeps.cross_entropy_(grad, shift, target, counts)
            total, right = losses.sum(), hits.sum()
        else:
            table = words.to(dtype)
            grad = x.new_empty(len(x), len(table))
            total, right = _block_by_block(x, table, bias.to(dtype), target, counts, grad)
        if counts is None or counts.dtype == torch.bool:
            right = right.long()
        ctx.save_for_backward(x, table, grad)
        ctx.types, ctx.vocabulary, ctx.swept = (words.dtype, bias.dtype), len(words), swept
        ctx.mark_non_differentiable(right)
        return total, right

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, table, grad = ctx.saved_tensors
        words_type, bias_type = ctx.types
        scale = scale.to(x.dtype)
        scaled = x * scale
        if x.device.type != "cpu":  # whose table may have more rows than there are words
            of_x = grad @ table
            of_words, of_bias = (
                part[: ctx.vocabulary] for part in sweeps.grad_logits(grad, scaled)
            )
        elif ctx.swept:
            of_x, of_words, of_bias = sweeps.grad_logits_cpu(grad, scaled, table)
        else:
            of_x = grad @ table
            of_words = grad.t() @ scaled
            of_bias = grad.sum(0)
        return (
            of_x.mul_(scale),
            # no view: autograd adds the embedding's gradient in its place
            of_words.to(words_type),
            of_bias.to(bias_type).mul_(scale),
            None,
            None,
            None,
        )


def _block_by_block(
    x: Tensor,
    table: Tensor,
    shift: Tensor,
    target: Tensor,
    counts: Tensor | None,
    grad: Tensor,
) -> tuple[Tensor, Tensor]:
    """The sum of the losses and the number predicted right; softmax − one-hot is written to
    `grad`."""
    total = x.new_zeros((), dtype=torch.promote_types(x.dtype, torch.float32))
    right = torch.zeros(
        (),
        dtype=torch.int64 if counts is None else torch.promote_types(counts.dtype, torch.int64),
        device=x.device,
    )
    at_once = _rows_at_once(x)
    for start in range(0, len(x), at_once):
        rows = slice(start, start + at_once)
        predicted = None if counts is None else counts[rows]
        logits, correct = _logits(x[rows], table, shift, target[rows])
        top = logits.amax(1)
        chosen = logits.gather(1, correct).squeeze(1)
        # argmax is slow; in a training log a tie of rounded logits may count as a hit
        right += _sum(chosen == top, predicted)
        p = torch.softmax(logits, 1)
        total += _sum(top - p.amax(1).log() - chosen, predicted)  # log Σ exp = top − log p(top)
        # Subtracted in float32: bfloat16 has no number between 0.996 and 1, so that p − 1 of a
        # likely target would be 0.
        p.scatter_add_(1, correct, p.new_full(correct.shape, -1))
        grad[rows] = p if predicted is None else p.mul_(predicted[:, None])
    return total, right


def _sum(values: Tensor, predicted: Tensor | None) -> Tensor:
    """Sum over the rows, each times how much it counts: 0 or 1 where only some are predicted; None:
    all alike."""
    return values.sum() if predicted is None else (values * predicted).sum()


def _logits(x: Tensor, table: Tensor, shift: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (rows, V) in float32 or float64, and the targets as a column (rows, 1)."""
    logits = torch.addmm(shift, x, table.t())
    return logits.to(torch.promote_types(logits.dtype, torch.float32)), target[:, None]


def _evaluated(x: Tensor, words: Tensor, bias: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The same two results without keeping anything for a gradient; of equal logits the first one
    is the prediction."""
    dtype = compute_dtype(x)
    x = x.to(dtype)
    table = words.to(dtype)
    shift = bias.to(dtype)
    total = x.new_zeros((), dtype=torch.promote_types(dtype, torch.float32))
    right = torch.zeros((), dtype=torch.int64, device=x.device)
    at_once = _rows_at_once(x)
    for rows, wanted in zip(x.split(at_once), target.split(at_once), strict=True):
        logits, correct = _logits(rows, table, shift, wanted)
        right += (logits.argmax(1) == wanted).sum()
        total += (logits.logsumexp(1) - logits.gather(1, correct).squeeze(1)).sum()
    return total, right


def tied_cross_entropy(
    x: Float[Tensor, "tokens embedding"],
    words: Float[Tensor, "vocabulary embedding"],
    bias: Float[Tensor, "vocabulary"],
    target: Int[Tensor, "tokens"],
    padded: bool = False,
    swept: bool = False,
    weights: Float[Tensor, "tokens"] | None = None,
) -> tuple[Float[Tensor, ""], Real[Tensor, ""]]:
    """x (N, E), words (V, E), bias (V,), target (N,) → (Σ −log softmax(x wordsᵀ + bias)[target],
    number predicted right).

    Args:
        padded: rows whose target is IGNORED do not count; only where gradients are computed.
        swept: through the single pass of kernels/sweeps.py.
        weights: by how much each token counts, in both results; only where gradients are computed.
    """
    # Checked here: inside `forward` gradients are always off, and `needs_input_grad` is true under
    # `no_grad` as well.
    if torch.is_grad_enabled() and any(part.requires_grad for part in (x, words, bias)):
        counts = weights
        if padded:
            predicted = target != IGNORED
            # IGNORED is no row of a table; what stands in its place is counted 0 times.
            counts, target = (
                predicted if weights is None else weights * predicted,
                target.clamp(min=0),
            )
        total, right = _TiedCrossEntropy.apply(
            x.to(compute_dtype(x)),
            words,
            bias,
            target,
            counts,
            swept,
        )
        return total, right
    return _evaluated(x, words, bias, target)

"""How much goes through the network at once, where the user does not say."""

from __future__ import annotations

import torch

from relpos.model.encoder import Encoder

CPU_TOKENS = 2048
"""More in a forward pass are no faster on a CPU: intermediate values leave the cache."""
GPU_SHARE = 0.5
"""Of the free memory, for what is kept of a forward pass until the backward pass."""


def fitting_microbatch(encoder: Encoder, length: int, accelerator: str) -> int:
    """Examples of `length` tokens that suit a forward pass on this machine.

    On a CPU `CPU_TOKENS`; on a GPU as many as fit into `GPU_SHARE` of its free memory by `kept`.
    """
    tokens = CPU_TOKENS
    if accelerator != "cpu" and torch.cuda.is_available():
        free, _ = torch.cuda.mem_get_info()
        tokens = max(tokens, int(GPU_SHARE * free / kept(encoder, length)))
    return max(1, tokens // length)


def kept(encoder: Encoder, length: int) -> int:
    """About how many bytes a token of a sequence of `length` tokens keeps until the backward pass, in float32.

    A layer keeps some ten vectors of the hidden width, two of the feed-forward width, and three rows of scores a head; the head of
    the language model the logits and their gradient at 15 % of the tokens.
    """
    shape, ffn = encoder.shape, int(encoder.layers[0].widen.out_features)  # type: ignore[union-attr, arg-type]
    numbers = shape.layers * (10 * shape.hidden + 2 * ffn + 3 * shape.heads * length)
    return 4 * (numbers + int(0.3 * encoder.embedding.words.num_embeddings))

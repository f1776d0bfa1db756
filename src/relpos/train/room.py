"""The size of a forward pass: which one suits the machine, and what to try where memory was too
small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from relpos.errors import RelposError
from relpos.model.encoder import Encoder

CPU_TOKENS = 2048
"""More tokens in a forward pass are no faster on a CPU: intermediate values leave the cache."""
GPU_SHARE = 0.5
"""Share of the free memory for what is kept of a forward pass until the backward pass."""


def fitting_microbatch(encoder: Encoder, length: int, accelerator: str) -> int:
    """Examples of `length` tokens that suit a forward pass on this machine.

    On a CPU `CPU_TOKENS`; on a GPU as many as fit into `GPU_SHARE` of its free memory by `kept`.
    """
    tokens = CPU_TOKENS
    if accelerator != "cpu" and torch.cuda.is_available():
        # What is free and not what there is: other runs may be on this GPU. What this process keeps
        # of an earlier run is free, too.
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        tokens = max(tokens, int(GPU_SHARE * free / kept(encoder, length)))
    return max(1, tokens // length)


def kept(encoder: Encoder, length: int) -> int:
    """About how many bytes each token of a sequence of `length` tokens keeps until the backward
    pass, in float32.

    A layer keeps some ten vectors of the hidden width, two of the feed-forward width, and three
    rows of scores for each head; the language model's head keeps the logits and their gradient at
    15 % of the tokens.
    """
    shape, ffn = encoder.shape, int(encoder.layers[0].widen.out_features)  # type: ignore[union-attr, arg-type]
    numbers = shape.layers * (10 * shape.hidden + 2 * ffn + 3 * shape.heads * length)
    return 4 * (numbers + int(0.3 * encoder.embedding.words.num_embeddings))


@contextmanager
def explained_memory(microbatch: int, examples: int, note: Callable[[int], None]) -> Iterator[None]:
    """Turns an out-of-memory error of the GPU, raised inside, into one line that says what to try.

    Args:
        microbatch: examples of full length that were allowed in a forward pass.
        examples: of a step in this process, the most that a forward pass can hold.
        note: called with the examples of full length that were too many.

    Raises:
        RelposError: in place of torch's OutOfMemoryError; it proposes half the micro-batch.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        used = min(microbatch, examples)
        note(used)
        if used > 1:
            advice = f"with speed.microbatch={used}; try speed.microbatch={used // 2}"
        else:
            advice = "with a single example in a forward pass; try a smaller length or size, or fewer runs on this GPU"
        raise RelposError(f"out of memory on the GPU {advice}") from error

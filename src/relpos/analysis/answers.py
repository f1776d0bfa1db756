"""Which tokens of the second sentence a network fills in rightly when all of them are masked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from relpos.analysis.likelihood import BATCH_TOKENS, Floats, exact
from relpos.data.examples import Examples
from relpos.data.masking import IGNORED
from relpos.data.objective import answered
from relpos.data.shuffle import masked_batches
from relpos.model.heads import MaskedLM


def right_tokens(model: MaskedLM, examples: Examples, advance: Callable[[int], object] = lambda _: None) -> tuple[Floats, Floats]:
    """(examples,) how many tokens of each answer have the highest score at their place, and how many tokens it has.

    Args:
        model: on whatever device it is; computed in float32.
        examples: pairs of question and answer.
        advance: called with the number of examples whenever some are done.
    """
    right, tokens = np.zeros(len(examples)), np.zeros(len(examples))
    device, vocabulary = next(model.parameters()).device, model.encoder.embedding.words.num_embeddings
    with exact(model):
        for batch, numbers in masked_batches(examples, vocabulary, BATCH_TOKENS, answered):
            filled = model(batch.input_ids.to(device), batch.attention_mask.to(device)).argmax(2).cpu()
            right[numbers] = (filled == batch.labels).sum(1).numpy()
            tokens[numbers] = (batch.labels != IGNORED).sum(1).numpy()
            advance(len(numbers))
    return right, tokens

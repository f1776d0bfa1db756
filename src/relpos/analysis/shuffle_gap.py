"""How much a network uses the order and the direction of the text: its held-out loss on a changed
text minus the loss as written.

The shuffle gap, of words in random order, separates order from none. The mirror gap, of rows read
from right to left, separates direction from distance: a scheme whose T depends on the distance |j −
i| alone gives the reversed row the reversed outputs, so its gap is 0 whatever its weights, and so
is that of no positions. A causal network has a direction whatever its positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from relpos.analysis.likelihood import exact, log_probabilities
from relpos.analysis.resampling import Floats, Interval, ratio_interval
from relpos.data.examples import ExampleSet
from relpos.data.objective import IGNORED, Objective, masked, next_tokens
from relpos.data.shuffle import WINDOWS, mirrored, permuted
from relpos.data.steps import MicroBatch, heldout_batches
from relpos.data.words import Words
from relpos.model.encoder import device_of
from relpos.model.heads import MaskedLM, at_outputs

BATCH_TOKENS = 2_048
Change = Callable[[MicroBatch], MicroBatch]
"""Masked examples → the same examples with tokens moved, none lost."""
ALL, MIRROR = "all", "mirror"
"""Changes: the words of a sentence in random order; rows from right to left, [CLS] and [SEP] too,
or distances would change."""
MIRRORED: dict[str, Change] = {MIRROR: mirrored}


@dataclass(frozen=True)
class Gaps:
    """Gaps in nats per predicted token, by change of the text; `loss` is that of the text as
    written.

    `intervals` are 95 % bootstrap intervals over examples, `differences` (examples,) the summed
    losses with the change minus those without, `predicted` (examples,) the number of tokens that
    they are summed over, and `losses` (examples,) those of the text as written.
    """

    loss: float
    gaps: dict[str, float]
    intervals: dict[str, Interval]
    differences: dict[str, Floats]
    predicted: Floats
    losses: Floats


def shuffled(words: Words) -> dict[str, Change]:
    """Words in random order within windows of 2, 3, 4, 8 and all words of a sentence: `"2"`, …,
    `"all"`."""
    return {str(window or ALL): partial(permuted, words=words, window=window) for window in WINDOWS}


def gaps(
    model: MaskedLM,
    examples: ExampleSet,
    changes: Mapping[str, Change],
    advance: Callable[[int], object] = lambda _: None,
    objective: Objective = masked,
) -> Gaps:
    """By how much each change of the text raises the loss.

    Args:
        model: on whatever device it is; computed in float32.
        examples: held-out examples, cut to the length of the training.
        changes: by name.
        advance: called with the number of examples that are done, in each pass over them: one, and
            one more per change.
        objective: what is predicted; a causal network predicts all tokens.
    """
    vocabulary = model.encoder.embedding.words.num_embeddings
    if model.encoder.causal:  # without masks: each token is predicted from those before it
        objective = next_tokens
    before = np.zeros(len(examples))
    predicted = np.zeros(len(examples))
    after = {key: np.zeros(len(examples)) for key in changes}
    with exact(model):
        microbatch = max(1, BATCH_TOKENS // examples.length)
        for batch in heldout_batches(examples, microbatch, vocabulary, objective=objective):
            assert batch.keys is not None
            rows = batch.keys.numpy()
            predicted[rows] = (batch.labels != IGNORED).sum(1).numpy()
            # All changes are made to the same masked batch: the difference is that of order alone,
            # not of other masks.
            before[rows] = _losses(model, batch)
            advance(len(rows))
            for key, change in changes.items():
                after[key][rows] = _losses(model, change(batch))
                advance(len(rows))
    tokens = max(predicted.sum(), 1.0)
    differences = {key: losses - before for key, losses in after.items()}
    means = {key: float(nats.sum() / tokens) for key, nats in differences.items()}
    intervals = {key: ratio_interval(nats, predicted) for key, nats in differences.items()}
    return Gaps(float(before.sum() / tokens), means, intervals, differences, predicted, before)


def _losses(model: MaskedLM, batch: MicroBatch) -> Floats:
    """(b,) the summed loss of each example."""
    device = device_of(model)
    labels = at_outputs(model.encoder, batch.labels).flatten()
    # The head runs at the predicted tokens alone, about a seventh of all.
    at = (labels != IGNORED).nonzero().squeeze(1)
    hidden = model.encoder(
        batch.input_ids.to(device),
        batch.attention_mask.to(device),
        at=at.to(device),
    )
    losses = -log_probabilities(model, hidden, labels[at].to(device)).cpu()
    row = at // batch.labels.shape[1]
    return torch.zeros(len(batch.labels), dtype=torch.float64).index_add_(0, row, losses).numpy()

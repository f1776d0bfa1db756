"""The held-out loss of a network by the length of its input: the same text under the same masks in
windows of each length.

A document's text is masked as a whole and then cut: [CLS] text [SEP], `length` tokens in all. Every
chosen token is predicted at every length, and only what the model sees around it changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from relpos import style
from relpos.data.objective import IGNORED, Objective, Unmasked, masked, next_tokens
from relpos.data.shuffle import with_edges
from relpos.data.steps import HELDOUT_SEED, MicroBatch
from relpos.data.store import Store
from relpos.data.tokenizer import OURS, Marks
from relpos.errors import RelposError
from relpos.measures.measure import Drawing, Measure, Measured
from relpos.measures.sample import Sample
from relpos.model.encoder import device_of
from relpos.model.heads import MaskedLM
from relpos.model.precision import autocast
from relpos.ranges import Count, Length
from relpos.readers import Plain

TOKENS = 100_000
AT_ONCE = 4096  # tokens of a batch, padding included
SHOWN = ("loss", "perplexity", "accuracy", "predicted", "refused")
Text = tuple[Tensor, Tensor]
"""Ids with masks in place, and labels, −100 = not predicted; (tokens,) each, no special ids."""


@dataclass(frozen=True)
class Lengths(Measure):
    """The loss on the same text under the same masks, cut to windows of each length.

    Args:
        lengths: of the inputs, in tokens.
        amount: about how many tokens of held-out text are used.
    """

    lengths: Sequence[Length] = (32, 64, 128, 256, 512)
    amount: Count = TOKENS

    by_name = True

    def meaning(self, toy: bool) -> dict[str, object]:
        # Sorted: who asks for the same lengths in another order shares the file.
        return {"lengths": sorted(self.lengths), "tokens": self.amount}

    def measure(self, sample: Sample) -> Plain:
        """`lengths` {"32": {loss, perplexity, accuracy, predicted}, …}, or {"512": {refused: why}}
        where the position scheme cannot serve the length; and `trained`, the length of the
        training's examples.

        Raises:
            NothingToMeasure: held-out text is not known.
            RelposError: no held-out document is as long as the longest input.
        """
        if not self.lengths:
            raise RelposError("lengths=[]: at least one is needed")
        # From documents that fill the longest input, so that all lengths are measured on the same
        # tokens.
        objective = next_tokens if sample.model.encoder.causal else masked
        texts = heldout_texts(sample.store, max(self.lengths), self.amount, objective)
        network, marks = sample.network, sample.store.marks
        by_length = {
            str(n): loss_by_length(sample.model, texts, n, network.precision, marks)
            for n in sorted(self.lengths)
        }
        return {"lengths": by_length, "trained": network.length}

    def draw(self, networks: Sequence[Measured]) -> Iterator[Drawing]:
        """Loss against length, as far as each scheme serves it; vertical lines mark the trained
        lengths."""
        figure, axes = style.panel()
        places: set[int] = set()
        rows = []
        for number, network in enumerate(networks):
            line = network.results["lengths"]
            trained = network.results["trained"]
            for n, at in line.items():
                row = {"network": network.name, "length": int(n)}
                rows.append(row | dict.fromkeys(SHOWN, "") | at)
            # A length that the scheme refuses has no loss, and no point.
            losses = {int(n): at["loss"] for n, at in line.items() if "loss" in at}
            places |= {trained, *losses}
            axes.plot(
                list(losses),
                list(losses.values()),
                marker=".",
                label=network.name,
                **style.look(number),
            )
            axes.axvline(trained, color="0.6", linestyle=(0, (4, 4)), linewidth=0.8, zorder=0)
        style.logarithmic(axes, places, base=2)
        label = "length in tokens (vertical line: trained at)"
        axes.set(xlabel=label, ylabel="held-out loss, nats per token")
        style.legend(figure)
        yield Drawing("lengths", rows, figure)


def heldout_texts(
    store: Store,
    longest: int,
    tokens: int,
    objective: Objective = masked,
) -> list[Text]:
    """Masked beginnings of held-out documents, in all about `tokens` tokens, in whole windows of
    `longest` − 2 tokens of text. The documents are those that are long enough, spread evenly over
    the store.

    Raises:
        RelposError: no held-out document has a whole window.
    """
    window = longest - 2
    documents = np.flatnonzero(store.heldout)
    first, last = (store.sentences[store.documents[documents + side]] for side in (0, 1))
    if (most := int((last - first).max(initial=0))) < window:
        raise RelposError(
            f"lengths={longest}: the longest held-out document has {most} tokens, "
            f"{window} are needed"
        )
    whole = (last - first) // window * window
    enough = np.flatnonzero(whole)
    count = min(len(enough), max(1, -(-len(enough) * tokens // int(whole.sum()))))
    most = -(-tokens // window) * window
    texts = []
    for place in enough[np.arange(count) * len(enough) // count]:
        start, read = first[place], min(whole[place], most)
        ids = torch.from_numpy(store.ids[start : start + read].astype(np.int64))[None]
        lengths, keys = torch.tensor([[read], [documents[place]]])
        predicted = objective.of(
            Unmasked(ids, lengths, keys, HELDOUT_SEED, store.vocabulary, store.marks)
        )
        texts.append((predicted.input_ids[0], predicted.labels[0]))
    return texts


def heldout_windows(
    texts: Sequence[Text],
    length: int,
    marks: Marks = OURS,
) -> Iterator[MicroBatch]:
    """All texts in windows of `length` tokens, special ones included; the last window of a text may
    be shorter."""
    ids = [window for text, _ in texts for window in text.split(length - 2)]
    labels = [window for _, of_text in texts for window in of_text.split(length - 2)]
    lengths = torch.tensor([len(window) + 2 for window in ids])
    for part in torch.arange(len(ids)).split(max(1, AT_ONCE // length)):
        rows = [with_edges(ids[number][None], marks)[0] for number in part]
        targets = [pad(labels[number], (1, 1), value=IGNORED) for number in part]
        yield MicroBatch(
            pad_sequence(rows, batch_first=True, padding_value=marks.pad),
            torch.arange(int(lengths[part].max())) < lengths[part, None],
            pad_sequence(targets, batch_first=True, padding_value=IGNORED),
        )


def loss_by_length(
    model: MaskedLM,
    texts: Sequence[Text],
    length: int,
    precision: str,
    marks: Marks = OURS,
) -> Plain:
    """{loss, perplexity, accuracy, predicted} on inputs of a length, or {refused: why} where the
    scheme cannot serve it."""
    try:
        # A table of positions has no rows for longer inputs, which is a result and no error.
        model.encoder.position.check_length(length)
    except RelposError as error:
        return {"refused": str(error)}
    device = device_of(model)
    model.eval()
    # Sums over all tokens, divided once: a mean of batch means would weigh the tokens of short
    # batches more.
    sums = np.zeros(3)
    for batch in heldout_windows(texts, length, marks):
        parts = batch.input_ids, batch.labels, batch.attention_mask
        ids, labels, mask = (part.to(device) for part in parts)
        with torch.no_grad(), autocast(precision, device):
            sums += [float(part) for part in model.loss_sum(ids, labels, mask)]
    loss, predicted, correct = sums
    return {
        "loss": loss / predicted,
        "perplexity": math.exp(loss / predicted),
        "accuracy": correct / predicted,
        "predicted": int(predicted),
    }

"""The held-out loss of a network by the length of its input: the same text under the same masks in
windows of each length.

A document's text is masked as a whole and then cut: [CLS] text [SEP], `length` tokens in all. Every
chosen token is predicted at every length, and only what the model sees around it changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from relpos import style
from relpos.data.objective import IGNORED, Objective, masked, next_tokens
from relpos.data.steps import HELDOUT_SEED, MicroBatch
from relpos.data.store import Store
from relpos.data.tokenizer import OURS, Marks
from relpos.errors import RelposError
from relpos.measures.measure import Drawing, Measure, Measured, Results
from relpos.measures.sample import Sample
from relpos.model.heads import MaskedLM
from relpos.model.precision import autocast
from relpos.ranges import Count, Length

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

    def meaning(self, toy: bool) -> dict[str, Any]:
        # Sorted: who asks for the same lengths in another order shares the file.
        return {"lengths": sorted(self.lengths), "tokens": self.amount}

    def measure(self, sample: Sample) -> Results:
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
        precision, marks = sample.network.precision, sample.store.marks
        by_length = {
            str(n): loss_by_length(sample.model, texts, n, precision, marks)
            for n in sorted(self.lengths)
        }
        return {"lengths": by_length, "trained": sample.network.length}

    def draw(self, networks: Sequence[Measured]) -> Iterator[Drawing]:
        """Loss against length. A cross ends the line of a scheme that refuses longer sequences;
        vertical lines mark the trained lengths."""
        figure, axes = style.panel()
        trained = {network.results["trained"] for network in networks}
        lines = {network.name: network.results["lengths"] for network in networks}
        # A length that the scheme refuses has no loss, and no point.
        points: dict[str, list[tuple[int, float]]] = {}
        for name, line in lines.items():
            if served := [
                (int(n), scores["loss"]) for n, scores in line.items() if "loss" in scores
            ]:
                points[name] = served
        style.logarithmic(axes, {n for line in points.values() for n, _ in line} | trained, base=2)
        for number, (name, line) in enumerate(points.items()):
            look = style.look(number)
            axes.plot(*zip(*line, strict=True), marker=".", label=name, **look)
            if len(line) < len(lines[name]):
                axes.plot(*line[-1], "x", color=look["color"], markersize=9)
        for n in trained:
            axes.axvline(n, color="0.6", linestyle=(0, (4, 4)), linewidth=0.8, zorder=0)
        label = "length in tokens (vertical line: trained at; cross: no longer sequences)"
        axes.set(xlabel=label, ylabel="held-out loss, nats per token")
        style.legend(figure)
        rows = [
            {"network": name, "length": int(n)} | {key: at.get(key, "") for key in SHOWN}
            for name, line in lines.items()
            for n, at in line.items()
        ]
        yield Drawing("lengths", rows, figure)


def heldout_texts(
    store: Store, longest: int, tokens: int, objective: Objective = masked
) -> list[Text]:
    """Masked beginnings of held-out documents, in all about `tokens` tokens, in whole windows of
    `longest` − 2 tokens of text. The documents are those that are long enough, spread evenly over
    the store.

    Raises:
        RelposError: no held-out document has a whole window.
    """
    window = longest - 2
    documents = np.flatnonzero(store.heldout)
    first, last = (
        store.sentences[store.documents[documents]],
        store.sentences[store.documents[documents + 1]],
    )
    if (most := int((last - first).max(initial=0))) < window:
        raise RelposError(
            f"lengths={longest}: the longest held-out document has {most} tokens, "
            f"{window} are needed"
        )
    whole = (last - first) // window * window
    enough = np.flatnonzero(whole)
    count = min(len(enough), max(1, -(-len(enough) * tokens // int(whole.sum()))))
    chosen = enough[np.arange(count) * len(enough) // count]
    counts = {d: min(int(whole[d]), -(-tokens // window) * window) for d in chosen}
    return [
        _masked(store, int(documents[d]), int(first[d]), count, objective)
        for d, count in counts.items()
    ]


def heldout_windows(
    texts: Sequence[Text], length: int, marks: Marks = OURS
) -> Iterator[MicroBatch]:
    """All texts in windows of `length` tokens, special ones included; the last window of a text may
    be shorter."""
    windows = [
        window
        for ids, labels in texts
        for window in zip(ids.split(length - 2), labels.split(length - 2), strict=True)
    ]
    rows = max(1, AT_ONCE // length)
    for at in range(0, len(windows), rows):
        yield _batch(windows[at : at + rows], marks)


def _masked(store: Store, document: int, start: int, count: int, objective: Objective) -> Text:
    ids = torch.from_numpy(np.asarray(store.ids[start : start + count]).astype(np.int64))[None]
    lengths, keys = torch.tensor([count]), torch.tensor([document])
    predicted = objective(ids, lengths, keys, HELDOUT_SEED, store.vocabulary, store.marks)
    return predicted.input_ids[0], predicted.labels[0]


def _batch(parts: Sequence[Text], marks: Marks) -> MicroBatch:
    rows = [
        torch.cat((torch.tensor([marks.cls]), ids, torch.tensor([marks.sep]))) for ids, _ in parts
    ]
    input_ids = pad_sequence(rows, batch_first=True, padding_value=marks.pad)
    labels = pad_sequence(
        [pad(targets, (1, 1), value=IGNORED) for _, targets in parts],
        batch_first=True,
        padding_value=IGNORED,
    )
    return MicroBatch(
        input_ids,
        torch.arange(input_ids.shape[1]) < torch.tensor([[len(row)] for row in rows]),
        labels,
    )


def loss_by_length(
    model: MaskedLM, texts: Sequence[Text], length: int, precision: str, marks: Marks = OURS
) -> dict[str, Any]:
    """{loss, perplexity, accuracy, predicted} on inputs of a length, or {refused: why} where the
    scheme cannot serve it."""
    try:
        # A table of positions has no rows for longer inputs, which is a result and no error.
        model.encoder.position.check_length(length)
    except RelposError as error:
        return {"refused": str(error)}
    device = next(model.parameters()).device
    model.eval()
    loss, predicted, correct = 0.0, 0, 0
    # Sums over all tokens, divided once: a mean of batch means would weigh the tokens of short
    # batches more.
    for batch in heldout_windows(texts, length, marks):
        ids, labels, mask = (
            part.to(device) for part in (batch.input_ids, batch.labels, batch.attention_mask)
        )
        with torch.no_grad(), autocast(precision, device):
            sums = model.loss_sum(ids, labels, mask)
        loss, predicted, correct = (
            loss + float(sums[0]),
            predicted + int(sums[1]),
            correct + int(sums[2]),
        )
    mean = loss / predicted
    return {
        "loss": mean,
        "perplexity": math.exp(mean),
        "accuracy": correct / predicted,
        "predicted": predicted,
    }

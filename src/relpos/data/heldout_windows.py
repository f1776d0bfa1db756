"""The same held-out text under the same masks in windows of any length, so that losses at different lengths can be compared.

A document's text is masked as a whole and then cut: [CLS] text [SEP], `length` tokens in all. Every chosen token is predicted at
every length, and only what the model sees around it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from relpos.data.objective import IGNORED, Objective, masked
from relpos.data.steps import HELDOUT_SEED, MicroBatch
from relpos.data.store import Store
from relpos.data.tokenizer import OURS, Marks
from relpos.errors import RelposError

AT_ONCE = 4096  # tokens of a batch, padding included


@dataclass(frozen=True)
class MaskedText:
    """The beginning of a document: `ids` with masks in place, and `labels`, −100 = not predicted; (tokens,), no special ids."""

    ids: Tensor
    labels: Tensor
    marks: Marks = OURS


def heldout_texts(store: Store, longest: int, tokens: int, objective: Objective = masked) -> list[MaskedText]:
    """The beginnings of held-out documents, about `tokens` tokens in all, each of whole windows of `longest` − 2 tokens of text.

    They are taken from documents that are long enough, spread evenly over the store.

    Raises:
        RelposError: no held-out document has a whole window.
    """
    window = longest - 2
    documents = np.flatnonzero(store.heldout)
    first, last = store.sentences[store.documents[documents]], store.sentences[store.documents[documents + 1]]
    if not len(documents) or int((last - first).max()) < window:
        most = int((last - first).max()) if len(documents) else 0
        raise RelposError(f"lengths={longest}: the longest held-out document has {most} tokens, {window} are needed")
    whole = (last - first) // window * window
    enough = np.flatnonzero(whole)
    count = min(len(enough), max(1, -(-len(enough) * tokens // int(whole.sum()))))
    chosen = enough[np.arange(count) * len(enough) // count]
    counts = {d: min(int(whole[d]), -(-tokens // window) * window) for d in chosen}
    return [_masked(store, int(documents[d]), int(first[d]), count, objective) for d, count in counts.items()]


def heldout_windows(texts: list[MaskedText], length: int) -> Iterator[MicroBatch]:
    """All texts in windows of `length` tokens, special ones included; the last window of a text may be shorter."""
    step = length - 2
    cuts = [(text, start) for text in texts for start in range(0, len(text.ids), step)]
    rows = max(1, AT_ONCE // length)
    for at in range(0, len(cuts), rows):
        yield _batch([(text.ids[s : s + step], text.labels[s : s + step]) for text, s in cuts[at : at + rows]], cuts[at][0].marks)


def _masked(store: Store, document: int, start: int, count: int, objective: Objective) -> MaskedText:
    ids = torch.from_numpy(np.asarray(store.ids[start : start + count]).astype(np.int64))[None]
    seen, labels, _ = objective(ids, torch.tensor([count]), torch.tensor([document]), HELDOUT_SEED, store.vocabulary, store.marks)
    return MaskedText(seen[0], labels[0], store.marks)


def _batch(parts: list[tuple[Tensor, Tensor]], marks: Marks) -> MicroBatch:
    rows = [torch.cat((torch.tensor([marks.cls]), ids, torch.tensor([marks.sep]))) for ids, _ in parts]
    input_ids = pad_sequence(rows, batch_first=True, padding_value=marks.pad)
    labels = pad_sequence([pad(targets, (1, 1), value=IGNORED) for _, targets in parts], batch_first=True, padding_value=IGNORED)
    return MicroBatch(input_ids, torch.arange(input_ids.shape[1]) < torch.tensor([[len(row)] for row in rows]), labels)

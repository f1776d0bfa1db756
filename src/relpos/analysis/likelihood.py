"""Pseudo-log-likelihoods of sentences, log-probabilities of single masked tokens, and what a
network puts in place of `[MASK]`, in float32 whatever a run was trained in.

A sentence is scored token by token: each stands masked once, and its log-probability given all
others is added up (Salazar et al. 2020, "Masked Language Model Scoring"). In the within-word form
the later pieces of the same word are masked too, since they would give the token away (Kauf &
Ivanova 2023, "A Better Way to Do Masked Language Model Scoring", PLL-word-l2r).

A causal network has likelihoods proper: the log-probability of each token given those before it, in
one row, whatever the form.

Where only the end of a sentence is scored, its first tokens are read like the others, and no
log-probability of theirs is added.

A sentence of n pieces is n rows of a batch, or as many as are scored. Rows of one length are
computed together, without padding; a row that several sentences share, as two that differ in one
word do, is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from relpos.analysis.resampling import Floats
from relpos.data.shuffle import with_edges
from relpos.data.tokenizer import OURS, Bools, Ids, Marks, Tokenizer
from relpos.data.words import Pieces, Words
from relpos.errors import RelposError
from relpos.model.encoder import device_of
from relpos.model.heads import MaskedLM
from relpos.model.tokens import in_batch

Network = TypeVar("Network", bound=nn.Module)
FORMS = ("within_word", "plain")
BATCH_TOKENS = 1_024  # what one forward pass sees: the activations stay in a core's cache
SHARED_TOKENS = 262_144  # equal rows are found among so many tokens at a time
_LOGIT_ROWS = 512  # rows of logits that exist at a time


@contextmanager
def exact(model: Network) -> Iterator[Network]:
    """The network in evaluation mode, without gradients, and with matrix products in full float32.

    A network without positions must give two orders of the same words the same score. In float32 it
    does to 1e-5; in bfloat16 the two would differ by 0.016.
    """
    training = model.training
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        model.eval()
        with torch.no_grad(), torch.autocast(device_of(model).type, enabled=False):
            yield model
    finally:
        torch.set_float32_matmul_precision(precision)
        model.train(training)


def log_probabilities(model: MaskedLM, hidden: Tensor, targets: Tensor) -> Tensor:
    """hidden (N, hidden), targets (N,) → (N,) float64: log softmax(head(hidden))[target]."""
    parts = [hidden.new_zeros(0, dtype=torch.float64)]
    for rows, target in zip(hidden.split(_LOGIT_ROWS), targets.split(_LOGIT_ROWS), strict=True):
        logits = model.head(rows, model.table)
        parts.append((logits.gather(1, target[:, None]).squeeze(1) - logits.logsumexp(1)).double())
    return torch.cat(parts)


def hidden_at(model: MaskedLM, rows: Ids, places: Pieces) -> Tensor:
    """rows (m, n) of ids, places (m,) → (m, hidden): the output at one token of each row."""
    device = device_of(model)
    length = rows.shape[1]
    parts = (torch.from_numpy(x).split(max(1, BATCH_TOKENS // length)) for x in (rows, places))
    outputs = []
    for ids, at in zip(*parts, strict=True):
        # `at`: the last layer computes these tokens alone.
        outputs.append(model.encoder(ids.to(device), at=in_batch(at, length).to(device)))
    return torch.cat(outputs)


def pseudo_log_likelihoods(
    model: MaskedLM,
    sentences: Sequence[Pieces],
    words: Words | None,
    advance: Callable[[int], object] = lambda _: None,
    marks: Marks = OURS,
    unscored: Sequence[int] | int = 0,
) -> Floats:
    """The pseudo-log-likelihood of each sentence, in nats.

    Args:
        model: on whatever device it is.
        sentences: ids without special ones, none of them empty.
        words: the boundaries for the within-word form; None: the plain form.
        advance: called with the number of sentences whenever some are done.
        marks: the special tokens of the tokenizer.
        unscored: how many tokens at the beginning of each sentence, or of all, are not scored.

    Raises:
        RelposError: a sentence is longer than the position scheme serves.
    """
    first = np.broadcast_to(unscored, len(sentences))
    lengths = np.array([len(sentence) for sentence in sentences], np.int64)
    totals = np.zeros(len(sentences))
    with exact(model):
        for length in np.unique(lengths)[::-1]:
            # A bound on tokens, because rows of a sentence grow with the square of its length.
            at_once = max(1, SHARED_TOKENS // int(length * (length + 2)))
            members = (lengths == length).nonzero()[0]
            for start in range(0, len(members), at_once):
                part = members[start : start + at_once]
                batch = np.array([sentences[number] for number in part], np.int64)
                scored = np.arange(length) >= first[part, None]
                totals[part] = _score(model, batch, scored, words, marks)
                advance(len(part))
    return totals


def masked_rows(ids: Ids, word: Ids, mask: int) -> Ids:
    """ids (m, n), word (m, n), the number of each token's word → (m, n, n): row t has token t and
    the later pieces of its word masked."""
    hidden = (word[:, None, :] == word[:, :, None]) & np.triu(np.ones((ids.shape[1],) * 2, bool))
    return np.where(hidden, mask, ids[:, None, :])


def _score(
    model: MaskedLM,
    ids: Ids,
    scored: Bools,
    words: Words | None,
    marks: Marks,
) -> Floats:
    """ids (m, n), sentences of one length, scored (m, n), which tokens count → (m,)."""
    device = device_of(model)
    counted = torch.from_numpy(scored).to(device)
    if model.encoder.causal:
        rows = with_edges(torch.from_numpy(ids), marks).to(device)
        step = max(1, BATCH_TOKENS // rows.shape[1])
        parts = []
        for part, counts in zip(rows.split(step), counted.split(step), strict=True):
            hidden = model.encoder(part)[:, :-2]  # the output at a token predicts the next one
            parts.append(log_probabilities(model, hidden[counts], part[:, 1:-1][counts]))
        scores = torch.cat(parts)
    else:
        word = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        if words is not None:
            word = words.numbers(ids)
        masked = masked_rows(ids, word, marks.mask)[scored]
        # Unique: two sentences that differ in one word share the row in which that word is masked.
        unique, inverse = np.unique(masked, axis=0, return_inverse=True)
        edged = with_edges(torch.from_numpy(unique), marks).numpy()
        # The first [MASK] of a row is the token that is predicted.
        hidden = hidden_at(model, edged, (edged == marks.mask).argmax(1))
        # `reshape`: in numpy 2.0 alone the inverse along an axis has a second dimension.
        hidden = hidden[torch.from_numpy(inverse.reshape(-1)).to(device)]
        scores = log_probabilities(model, hidden, torch.from_numpy(ids[scored]).to(device))
    by_token = scores.new_zeros(ids.shape)
    by_token[counted] = scores
    total: Floats = by_token.sum(1).cpu().numpy()
    return total


@dataclass(frozen=True)
class Scored:
    """Pieces of a text and the log-probability of each, in nats, given the others. Special tokens
    are not among them."""

    pieces: list[str]
    log_probabilities: list[float]

    @property
    def total(self) -> float:
        """The pseudo-log-likelihood of the text, in nats."""
        return sum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """Pseudo-perplexity: exp of minus the mean over the tokens."""
        return float(np.exp(-self.total / len(self.pieces)))


class Score:
    """A text → its pseudo-log-likelihood, token by token, computed in float32 on the network's
    device.

    Args:
        model: the network.
        tokenizer: of the network.
        form: `within_word` masks the later pieces of a token's word with it (Kauf & Ivanova 2023),
            `plain` the token alone (Salazar et al. 2020).
    """

    def __init__(self, model: MaskedLM, tokenizer: Tokenizer, form: str = "within_word") -> None:
        if form not in FORMS:
            raise RelposError(f"form={form}: {' or '.join(FORMS)} is expected")
        self.model, self.tokenizer = model, tokenizer
        self.words = None
        if form == "within_word":
            self.words = Words(tokenizer)

    def __call__(self, text: str) -> Scored:
        """Scores all tokens but the special ones, which the network reads all the same: a `[MASK]`
        stays unknown.

        Raises:
            RelposError: there is nothing to score, or the text is longer than the position scheme
                serves.
        """
        ids = self.tokenizer.marked_ids(text)
        special = self.tokenizer.is_special(ids)
        places = (~special).nonzero()[0]
        if not len(places):
            raise RelposError(f"text={text!r}: there is nothing to score but special tokens")
        with exact(self.model) as model:
            word = np.arange(len(ids))
            if self.words is not None:
                # A special token ends a word; `roll` brings the last one round to the first, which
                # begins one anyway.
                begins = self.words.begins(ids) | special | np.roll(special, 1)
                word = begins.cumsum(dtype=np.int64)
            rows = masked_rows(ids[None], word[None], self.tokenizer.mask)[0][places]
            # A causal network predicts a token at the one before it.
            hidden = hidden_at(model, rows, places - model.encoder.causal)
            targets = torch.from_numpy(ids[places]).to(hidden.device)
            scores = log_probabilities(model, hidden, targets)
        return Scored([self.tokenizer.piece(ids[place]) for place in places], scores.tolist())


@dataclass(frozen=True)
class Guess:
    """One piece for one masked token.

    Args:
        piece: as the tokenizer has it.
        id: of the piece.
        probability: of the piece at this token, given all tokens that are not masked.
        text: the whole text with this piece in place; other masked tokens stay masked.
    """

    piece: str
    id: int
    probability: float
    text: str


class FillMask:
    """A text → the most probable pieces at each of its masked tokens, computed in float32 on the
    network's device."""

    def __init__(self, model: MaskedLM, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    def __call__(self, text: str, top: int = 5) -> list[list[Guess]]:
        """For each masked token, from left to right, the `top` most probable pieces, the most
        probable first.

        Raises:
            RelposError: no token of the text is masked, or it is longer than the position scheme
                serves.
        """
        ids = self.tokenizer.marked_ids(text)
        places = (ids == self.tokenizer.mask).nonzero()[0].tolist()
        if not places:
            raise RelposError(f"text={text!r}: no [MASK] in it, as in 'the cat [MASK] on the mat'")
        with exact(self.model) as model:
            device = device_of(model)
            # A causal network predicts a token at the one before it. The last layer computes these
            # tokens alone.
            outputs = torch.tensor(places, device=device) - int(model.encoder.causal)
            hidden = model.encoder(torch.from_numpy(ids)[None].to(device), at=outputs)
            logits = model.head(hidden, model.table).double()
            # In float64: probabilities of rare words would lose their digits.
            best = logits.softmax(-1).topk(min(top, logits.shape[-1]), -1)
        guesses = []
        for place, *most in zip(places, best.indices.tolist(), best.values.tolist(), strict=True):
            guesses.append([self._guess(ids, place, *piece) for piece in zip(*most, strict=True)])
        return guesses

    def _guess(self, ids: Ids, place: int, number: int, probability: float) -> Guess:
        filled = ids.tolist()
        tokenizer = self.tokenizer
        filled[place] = number
        # The text for a reader leaves out the [CLS] in front and the [SEP] at the end.
        first = int(filled[0] == tokenizer.cls)
        last = len(filled) - (filled[-1] == tokenizer.sep)
        text = tokenizer.decode_marked(filled[first:last])
        return Guess(tokenizer.piece(number), number, probability, text)

"""The pseudo-log-likelihood of one text, token by token.

`relpos.analysis.likelihood` has the definition, and sums it for many texts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from relpos.analysis.likelihood import exact, hidden_at, log_probabilities, masked_rows
from relpos.data.marked import Ids, is_special, marked_ids
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError
from relpos.model.heads import MaskedLM

FORMS = ("within_word", "plain")


@dataclass(frozen=True)
class Scored:
    """Pieces of a text and the log-probability of each, in nats, given the others. Special tokens are not among them."""

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
    """A text → its pseudo-log-likelihood, token by token, computed in float32 on the network's device.

    Args:
        model: the network.
        tokenizer: of the network.
        form: `within_word` masks the later pieces of a token's word with it (Kauf & Ivanova 2023), `plain` the token alone (Salazar
            et al. 2020).
    """

    def __init__(self, model: MaskedLM, tokenizer: Tokenizer, form: str = "within_word") -> None:
        if form not in FORMS:
            raise RelposError(f"form={form}: {' or '.join(FORMS)} is expected")
        self.model, self.tokenizer = model, tokenizer
        self.words = Words(tokenizer) if form == "within_word" else None

    def __call__(self, text: str) -> Scored:
        """Scores all tokens but the special ones, which the network reads all the same: a `[MASK]` stays unknown.

        Raises:
            RelposError: there is nothing to score, or the text is longer than the position scheme serves.
        """
        ids = marked_ids(self.tokenizer, text)
        places = (~is_special(self.tokenizer, ids)).nonzero()[0]
        if not len(places):
            raise RelposError(f"text={text!r}: there is nothing to score but special tokens")
        with exact(self.model) as model:
            # A causal network predicts a token at the one before it.
            rows = masked_rows(ids[None], self._word_numbers(ids)[None], self.tokenizer.mask)[0][places]
            hidden = hidden_at(model, rows, places - model.encoder.causal)
            scores = log_probabilities(model, hidden, torch.from_numpy(ids[places]).to(hidden.device))
        return Scored([self.tokenizer.piece(ids[place]) for place in places], scores.tolist())

    def _word_numbers(self, ids: Ids) -> Ids:
        """(n,) a number for each word; special tokens end words, and each token is a word where the form is plain."""
        if self.words is None:
            return np.arange(len(ids))
        special = is_special(self.tokenizer, ids)
        begins = special.copy()
        for segment in np.split(np.arange(len(ids)), np.flatnonzero(special)):
            text = segment[~special[segment]]
            if len(text):
                begins[text] = self.words.begins(ids[text])
        numbers: Ids = begins.cumsum(dtype=np.int64)
        return numbers

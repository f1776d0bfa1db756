"""How often a network gives the good sentence of a minimal pair the higher pseudo-log-likelihood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from relpos.analysis.likelihood import pseudo_log_likelihoods
from relpos.analysis.resampling import pooled_interval
from relpos.data.pairs import Pair
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError
from relpos.model.heads import MaskedLM

TIE = 1e-4
"""Nats: a pair whose two sentences differ by less counts as half right."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PairScores:
    """Of each pair: `right` (pairs,) is 1, 0, or ½ at a tie; `same` (pairs,) says whether both sentences hold the same words;
    `paradigms` has the name of its paradigm."""

    right: Floats
    same: npt.NDArray[np.bool_]
    paradigms: list[str]

    def groups(self, chosen: npt.NDArray[np.bool_]) -> list[Floats]:
        """`right` of the chosen pairs, by paradigm."""
        names = np.array(self.paradigms)
        return [self.right[chosen & (names == name)] for name in dict.fromkeys(self.paradigms)]

    def summary(self) -> dict[str, Any]:
        """{"same_words": {accuracy, interval, n}, "others": …, "paradigms": {name: …}}, accuracies from 0 to 100. The 95 %
        intervals are for other pairs of these same paradigms, not for other paradigms; None where there is no pair."""
        names = np.array(self.paradigms)
        paradigms = {name: self._pooled(names == name) for name in dict.fromkeys(self.paradigms)}
        return {"same_words": self._pooled(self.same), "others": self._pooled(~self.same), "paradigms": paradigms}

    def answers(self) -> dict[str, dict[str, str]]:
        """{"same_words": {paradigm: "110t"}, "others": …}: a character for each pair: 1 right, 0 wrong, t tied."""
        answers: dict[str, dict[str, str]] = {"same_words": {}, "others": {}}
        for right, same, paradigm in zip(self.right, self.same, self.paradigms, strict=True):
            of_group = answers["same_words" if same else "others"]
            of_group[paradigm] = of_group.get(paradigm, "") + ("t" if right == 0.5 else str(int(right)))
        return answers

    def _pooled(self, chosen: npt.NDArray[np.bool_]) -> dict[str, Any]:
        n = int(chosen.sum())
        interval = pooled_interval(self.groups(chosen))
        return {
            "accuracy": 100 * float(self.right[chosen].mean()) if n else None,
            "interval": [100 * bound for bound in interval] if interval else None,
            "n": n,
        }


def minimal_pairs(
    model: MaskedLM,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    form: str = "within_word",
    words: Words | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> PairScores:
    """Scores both sentences of every pair.

    Args:
        form: `within_word` (the later pieces of a word are hidden with the token that is predicted) or `plain`.
        words: the boundaries under `tokenizer`, where the caller has them already.
        advance: called with the number of sentences whenever some are done.

    Raises:
        RelposError: a sentence has no tokens, or more than the position scheme serves; names file and line.
    """
    words = words or Words(tokenizer)
    good, bad = tokenizer.encode([pair.good for pair in pairs]), tokenizer.encode([pair.bad for pair in pairs])
    longest = model.encoder.position.max_length
    for pair, *both in zip(pairs, good, bad, strict=True):
        for ids in both:
            if not len(ids):
                raise RelposError(f"{pair.place}: the tokenizer leaves nothing of a sentence")
            # Refused by file and line, before minutes of scoring end with the shape of a tensor.
            if longest is not None and len(ids) + 2 > longest:
                scheme = type(model.encoder.position).__name__
                raise RelposError(f"{pair.place}: a sentence of {len(ids) + 2} tokens is too long: {scheme} serves {longest}")
    both_in_turn = [ids for both in zip(good, bad, strict=True) for ids in both]  # neighbours share rows
    scores = pseudo_log_likelihoods(model, both_in_turn, words if form == "within_word" else None, advance, tokenizer.marks)
    difference = scores[0::2] - scores[1::2]
    right = np.where(np.abs(difference) <= TIE, 0.5, (difference > 0).astype(np.float64))
    same = np.array([words.same(*both) for both in zip(good, bad, strict=True)], dtype=bool)
    return PairScores(right, same, [pair.paradigm for pair in pairs])

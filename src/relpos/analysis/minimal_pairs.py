"""How often a network gives the right text of a minimal pair, or of a larger set, the highest pseudo-log-likelihood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from relpos.analysis.likelihood import Ids, pseudo_log_likelihoods
from relpos.analysis.resampling import pooled_interval
from relpos.data.pairs import Item
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError
from relpos.model.heads import MaskedLM

TIE = 1e-4
"""Nats: texts that differ by less are tied. Where the right text is one of k tied for the best, the pair counts 1/k, as much as a
guess among them gets. Public scripts count an exact tie as right, because the right text is the first, and let rounding decide the
other ones."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PairScores:
    """Of each pair or set: `right` (pairs,) is 1, 0, or 1/k where k texts are tied, the right one among them; `guess` (pairs,)
    is what guessing gets; `same` (pairs,) says whether all texts hold the same words; `paradigms` has the name of its paradigm."""

    right: Floats
    guess: Floats
    same: npt.NDArray[np.bool_]
    paradigms: list[str]

    def groups(self, chosen: npt.NDArray[np.bool_]) -> list[Floats]:
        """`right` of the chosen pairs, by paradigm."""
        names = np.array(self.paradigms)
        return [self.right[chosen & (names == name)] for name in dict.fromkeys(self.paradigms)]

    def summary(self) -> dict[str, Any]:
        """{"same_words": {accuracy, interval, n, ties_right, guess}, "others": …, "paradigms": {name: …}}, accuracies of 0 to 100.
        The 95 % intervals are for other pairs of these same paradigms, not for other paradigms; None where there is no pair.
        `ties_right` is the accuracy where ties count as right, `guess` that of guessing."""
        names = np.array(self.paradigms)
        paradigms = {name: self._pooled(names == name) for name in dict.fromkeys(self.paradigms)}
        return {"same_words": self._pooled(self.same), "others": self._pooled(~self.same), "paradigms": paradigms}

    def answers(self) -> dict[str, dict[str, str]]:
        """{"same_words": {paradigm: "110t"}, "others": …}: a character for each pair: 1 right, 0 wrong, t tied with one
        text, 3 to 9 one of so many that are tied."""
        answers: dict[str, dict[str, str]] = {"same_words": {}, "others": {}}
        for right, same, paradigm in zip(self.right, self.same, self.paradigms, strict=True):
            of_group = answers["same_words" if same else "others"]
            of_group[paradigm] = of_group.get(paradigm, "") + ("0" if not right else "t" if right == 0.5 else str(round(1 / right)))
        return answers

    def _pooled(self, chosen: npt.NDArray[np.bool_]) -> dict[str, Any]:
        n = int(chosen.sum())
        interval = pooled_interval(self.groups(chosen))
        return {
            "accuracy": 100 * float(self.right[chosen].mean()) if n else None,
            "interval": [100 * bound for bound in interval] if interval else None,
            "n": n,
            "ties_right": 100 * float((self.right[chosen] > 0).mean()) if n else None,
            "guess": 100 * float(self.guess[chosen].mean()) if n else None,
        }


def minimal_pairs(
    model: MaskedLM,
    tokenizer: Tokenizer,
    pairs: Sequence[Item],
    form: str = "within_word",
    words: Words | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> PairScores:
    """Scores all texts of every pair or set; of those that go on a given text, the tokens that go on.

    Args:
        form: `within_word` (the later pieces of a word are hidden with the token that is predicted) or `plain`.
        words: the boundaries under `tokenizer`, where the caller has them already.
        advance: called with the number of texts whenever some are done.

    Raises:
        RelposError: a text has no tokens to score, or more than the position scheme serves; names file and line.
    """
    words = words or Words(tokenizer)
    texts = tokenizer.encode([text for pair in pairs for text in pair.texts])  # neighbours share rows
    owners = [pair for pair in pairs for _ in pair.texts]
    before = iter(tokenizer.encode([text for pair in pairs for text in pair.given]))
    given = [_shared(next(before), ids) if pair.given else 0 for pair, ids in zip(owners, texts, strict=True)]
    longest = model.encoder.position.max_length
    for pair, ids, first in zip(owners, texts, given, strict=True):
        if len(ids) == first:
            raise RelposError(f"{pair.place}: the tokenizer leaves nothing of a sentence")
        # Refused by file and line, before minutes of scoring end with the shape of a tensor.
        if longest is not None and len(ids) + 2 > longest:
            scheme = type(model.encoder.position).__name__
            raise RelposError(f"{pair.place}: a sentence of {len(ids) + 2} tokens is too long: {scheme} serves {longest}")
    scores = pseudo_log_likelihoods(model, texts, words if form == "within_word" else None, advance, tokenizer.marks, given)
    right, same, stop = [], [], 0
    for pair in pairs:
        start, stop = stop, stop + len(pair.texts)
        tied = scores[start:stop].max() - scores[start:stop] <= TIE
        right.append(tied[0] / tied.sum())
        same.append(all(words.same(texts[start], text) for text in texts[start + 1 : stop]))
    guess = np.array([1 / len(pair.texts) for pair in pairs], np.float64)
    return PairScores(np.array(right, np.float64), guess, np.array(same, np.bool_), [pair.paradigm for pair in pairs])


def _shared(before: Ids, text: Ids) -> int:
    """How many tokens of a text are those of its beginning. A token that reaches over the end of it belongs to what follows."""
    n = min(len(text), len(before))
    # The False at the end is found where all that can be compared is equal.
    return int(np.argmin(np.append(text[:n] == before[:n], False)))

"""In how many minimal pairs, or larger sets, the right text is found the most likely one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from relpos.analysis.likelihood import pseudo_log_likelihoods
from relpos.analysis.resampling import Floats, pooled_interval
from relpos.data.pairs import MOST, AutoPairs, PairItem, PairSource
from relpos.data.tokenizer import Bools, Tokenizer
from relpos.data.words import Pieces, Words
from relpos.errors import RelposError
from relpos.measures.measure import Figure, Form, Measure, MeasuredColumn, NothingToMeasure
from relpos.measures.sample import Sample, reads_toy
from relpos.model.heads import MaskedLM
from relpos.readers import Plain
from relpos.trust import instantiate

GROUPS = {"same_word_pairs": "same_words", "other_pairs": "others"}
"""Column → its key among the results."""
RIGHT = {"1": 1.0, "0": 0.0, "t": 0.5} | {str(tied): 1 / tied for tied in range(3, MOST + 1)}
"""Mark of a pair among the kept answers → its part of a right answer: 1 right, 0 wrong, 1/k where k
texts are tied."""
TIE = 1e-4
"""Nats: texts that differ by less are tied. Where the right text is one of k tied for the best, the
pair counts 1/k, which is what a guess among them gets. Public scripts count an exact tie as right,
because the right text is the first, and leave near ties to rounding."""


@dataclass(frozen=True)
class Pairs(Measure):
    """Accuracy in per cent by pseudo-log-likelihood.

    Args:
        form: of the pseudo-log-likelihood.
        pairs: node of a `PairSource`, of the same minimal pairs for all networks, or of
            `AutoPairs`, for each those that suit it.
    """

    form: Form = "within_word"
    pairs: Mapping[str, object] | None = None

    place = 3
    columns = tuple(
        MeasuredColumn(name, title, "accuracy", bounds=(0.0, 100.0))
        for name, title in zip(GROUPS, ("same-word pairs", "other pairs"), strict=True)
    )
    note = (
        "Pairs: per cent of minimal pairs whose good sentence is found the more likely one (50 = a "
        "guess); same-word pairs hold the same words in two orders. The interval of a single "
        "network is for other pairs of these paradigms, not for other paradigms."
    )
    details = ("answers",)

    def meaning(self, toy: bool) -> dict[str, object]:
        return {"form": self.form, "pairs": self.source(toy).identity()}

    def source(self, toy: bool) -> PairSource:
        """The pairs for a network that has read the embedded language, or not.

        Raises:
            NothingToMeasure: there are none.
        """
        # Pairs of English say nothing of a network that knows only the embedded language, nor the
        # other way round.
        source: PairSource | None = None
        if self.pairs:
            named = instantiate(self.pairs, "pairs")
            source = named.suited(toy) if isinstance(named, AutoPairs) else named
        if source is None:
            raise NothingToMeasure(
                "there are no pairs for this network; name some, as in pairs=zorro or pairs=FILE"
            )
        return source

    def measure(self, sample: Sample) -> Plain:
        """`pairs` and `answers`, see `PairScores`; `form`."""
        pairs, form = self.source(reads_toy(sample.network.store)).pairs(), self.form
        with sample.bar("minimal pairs", sum(len(pair.texts) for pair in pairs)) as advance:
            scores = minimal_pairs(
                sample.model,
                sample.tokenizer,
                pairs,
                form,
                sample.words,
                advance,
            )
        return {"pairs": scores.summary(), "form": form, "answers": scores.answers()}

    def figure(self, column: str, results: Plain) -> Figure | None:
        group = GROUPS[column]
        if "pairs" not in results or results["pairs"][group]["accuracy"] is None:
            return None
        pooled = results["pairs"][group]
        # From the kept answers and not from the accuracy: an interval over networks draws pairs
        # anew within paradigms.
        answers = results["answers"][group]
        right = [100 * RIGHT[mark] for mark in "".join(answers.values())]
        return Figure(
            pooled["accuracy"],
            tuple(pooled["interval"]),
            pooled["n"],
            np.array([right, np.ones(len(right))]),
            tuple(paradigm for paradigm, marks in answers.items() for _ in marks),
            guess=pooled["guess"],
        )

    def said(self, results: Plain) -> list[str]:
        phrases = []
        for column in self.columns:
            if figure := self.figure(column.name, results):
                phrases.append(f"{column.title} {figure.value:.1f}")
                # The accuracy that public scripts would report, where it differs.
                as_right = results["pairs"][GROUPS[column.name]]["ties_right"]
                if as_right - figure.value >= 0.05:
                    phrases[-1] += f" ({as_right:.1f} with ties as right)"
        return phrases


@dataclass(frozen=True)
class PairScores:
    """For each pair or set: `right` (pairs,) is 1, 0, or 1/k where k texts are tied, the right one
    among them; `guess` (pairs,) is what guessing gets; `same` (pairs,) says whether all texts hold
    the same words; `paradigms` has the name of its paradigm."""

    right: Floats
    guess: Floats
    same: Bools
    paradigms: list[str]

    def summary(self) -> Plain:
        """{"same_words": {accuracy, interval, n, ties_right, guess}, "others": …, "paradigms":
        {name: …}}, accuracies of 0 to 100. The 95 % intervals are for other pairs of these same
        paradigms, not for other paradigms; None where there is no pair. `ties_right` is the
        accuracy where ties count as right, `guess` that of guessing."""
        names, same = np.array(self.paradigms), self.same
        paradigms = {name: self._pooled(names == name) for name in dict.fromkeys(self.paradigms)}
        groups = {"same_words": self._pooled(same), "others": self._pooled(~same)}
        return groups | {"paradigms": paradigms}

    def answers(self) -> dict[str, dict[str, str]]:
        """{"same_words": {paradigm: "110t"}, "others": …}: a mark of `RIGHT` for each pair."""
        marks = {right: mark for mark, right in RIGHT.items()}
        groups: dict[str, dict[str, str]] = {"same_words": {}, "others": {}}
        for right, same, paradigm in zip(self.right, self.same, self.paradigms, strict=True):
            group = groups["same_words" if same else "others"]
            group[paradigm] = group.get(paradigm, "") + marks[right]
        return groups

    def _pooled(self, chosen: Bools) -> Plain:
        right = self.right[chosen]
        names = np.array(self.paradigms)[chosen]
        pooled: Plain = dict.fromkeys(("accuracy", "interval", "n", "ties_right", "guess"))
        pooled["n"] = len(right)
        interval = pooled_interval([right[names == name] for name in dict.fromkeys(names)])
        if interval is not None:
            pooled["interval"] = [100 * bound for bound in interval]
            means = {"accuracy": right, "ties_right": right > 0, "guess": self.guess[chosen]}
            pooled |= {name: 100 * float(values.mean()) for name, values in means.items()}
        return pooled


def minimal_pairs(
    model: MaskedLM,
    tokenizer: Tokenizer,
    pairs: Sequence[PairItem],
    form: str = "within_word",
    words: Words | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> PairScores:
    """Scores all texts of every pair or set; of texts that continue a given beginning, only the
    tokens behind it.

    Args:
        form: `within_word` (the later pieces of a word are hidden with the token that is predicted)
            or `plain`.
        words: the boundaries under `tokenizer`, where the caller has them already.
        advance: called with the number of texts whenever some are done.

    Raises:
        RelposError: a text has no tokens to score, or more than the position scheme serves; names
            file and line.
    """
    words = words or Words(tokenizer)
    # neighbours share rows
    texts = tokenizer.encode([text for pair in pairs for text in pair.texts])
    prefixes = iter(tokenizer.encode([text for pair in pairs for text in pair.given]))
    unscored = []  # tokens at the beginning of each text
    longest = model.encoder.position.max_length
    owners = (pair for pair in pairs for _ in pair.texts)
    for pair, ids in zip(owners, texts, strict=True):
        unscored.append(_shared(next(prefixes), ids) if pair.given else 0)
        if len(ids) == unscored[-1]:
            raise RelposError(f"{pair.place}: the tokenizer leaves nothing of a sentence")
        # Refused here, by file and line: the network's own error would come after minutes and name
        # a tensor.
        if longest is not None and len(ids) + 2 > longest:
            raise RelposError(
                f"{pair.place}: a sentence of {len(ids) + 2} tokens is too long: "
                f"{type(model.encoder.position).__name__} serves {longest}"
            )
    hidden = words if form == "within_word" else None
    scores = pseudo_log_likelihoods(model, texts, hidden, advance, tokenizer.marks, unscored)
    right, same, stop = [], [], 0
    for pair in pairs:
        start, stop = stop, stop + len(pair.texts)
        tied = scores[start:stop].max() - scores[start:stop] <= TIE
        right.append(tied[0] / tied.sum())
        same.append(all(words.same(texts[start], text) for text in texts[start + 1 : stop]))
    return PairScores(
        np.array(right, np.float64),
        1 / np.array([len(pair.texts) for pair in pairs], np.float64),
        np.array(same, np.bool_),
        [pair.paradigm for pair in pairs],
    )


def _shared(prefix: Pieces, text: Pieces) -> int:
    """How many tokens of a text belong to its prefix. A token that reaches beyond the prefix
    belongs to the rest."""
    n = min(len(text), len(prefix))
    # Where all n tokens are equal, argmin finds the False at the end.
    return int(np.argmin(np.append(text[:n] == prefix[:n], False)))

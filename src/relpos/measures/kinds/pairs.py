"""In how many minimal pairs, or larger sets, the right text is found the most likely one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from relpos.data.pairs import AutoPairs, PairSource
from relpos.measures.measure import Figure, Measure, MeasuredColumn, NothingToMeasure, Results
from relpos.measures.sample import Sample

GROUPS = {"same_word_pairs": "same_words", "other_pairs": "others"}
"""Column → its key among the results."""
RIGHT = {"1": 1.0, "0": 0.0, "t": 0.5} | {str(tied): 1 / tied for tied in range(3, 10)}
"""Mark of a pair among the kept answers → its part of a right answer: right, wrong, tied with one text, one of so many tied."""


@dataclass(frozen=True)
class Pairs(Measure):
    """Accuracy in per cent by pseudo-log-likelihood, see `relpos.analysis.minimal_pairs`.

    Args:
        form: of the pseudo-log-likelihood.
        pairs: the same minimal pairs for all networks, or for each those that suit it.
    """

    form: Literal["within_word", "plain"] = "within_word"
    pairs: PairSource | AutoPairs | None = None

    place = 3
    columns = tuple(
        MeasuredColumn(name, title, "accuracy", bounds=(0.0, 100.0))
        for name, title in (("same_word_pairs", "same-word pairs"), ("other_pairs", "other pairs"))
    )
    note = (
        "Pairs: per cent of minimal pairs whose good sentence is found the more likely one (50 = a guess); same-word pairs "
        "hold the same words in two orders. The interval of a single network is for other pairs of these paradigms, not for other "
        "paradigms."
    )
    details = ("answers",)

    def meaning(self, toy: bool) -> dict[str, Any]:
        return {"form": self.form, "pairs": self.source(toy).identity()}

    def source(self, toy: bool) -> PairSource:
        """The pairs for a network.

        Args:
            toy: whether it was trained on the embedded language.

        Raises:
            NothingToMeasure: there are none.
        """
        # Pairs of English say nothing of a network that knows only the embedded language, nor the other way round.
        found = self.pairs.suited(toy) if isinstance(self.pairs, AutoPairs) else self.pairs
        if found is None:
            raise NothingToMeasure("there are no pairs for this network; name some, as in pairs=zorro or pairs=FILE")
        return found

    def measure(self, sample: Sample) -> Results:
        """`pairs` {"same_words", "others", "paradigms"}, `form`; and `answers`, of each pair whether it is right, by paradigm."""
        from relpos.analysis.minimal_pairs import minimal_pairs

        pairs, form = self.source(sample.toy).pairs(), self.form
        with sample.bar("minimal pairs", sum(len(pair.texts) for pair in pairs)) as advance:
            scores = minimal_pairs(sample.model, sample.tokenizer, pairs, form, sample.words, advance)
        return {"pairs": scores.summary(), "form": form, "answers": scores.answers()}

    def figure(self, column: str, results: Results) -> Figure | None:
        pooled = results.get("pairs", {}).get(GROUPS[column], {})
        if pooled.get("accuracy") is None:
            return None
        answers = [(paradigm, mark) for paradigm, marks in results["answers"][GROUPS[column]].items() for mark in marks]
        # From the kept answers and not from the accuracy: an interval over networks draws pairs anew within paradigms.
        right = np.array([100 * RIGHT[mark] for _, mark in answers])
        parts = np.stack([right, np.ones(len(right))])
        low, high = pooled["interval"]
        guess = pooled.get("guess", 50.0)  # results that were kept before do not have it: two texts in each pair
        paradigms = tuple(paradigm for paradigm, _ in answers)
        return Figure(pooled["accuracy"], (low, high), pooled["n"], parts, paradigms, guess)

    def said(self, results: Results) -> list[str]:
        pooled = [(column.title, results.get("pairs", {}).get(GROUPS[column.name], {})) for column in self.columns]
        return [f"{title} {found['accuracy']:.1f}{_ties(found)}" for title, found in pooled if found.get("accuracy") is not None]


def _ties(found: Mapping[str, Any]) -> str:
    """What public scripts would say, where it is something else; figures that were kept before do not have it."""
    as_right = found.get("ties_right", found["accuracy"])
    return f" ({as_right:.1f} with ties as right)" if as_right - found["accuracy"] >= 0.05 else ""

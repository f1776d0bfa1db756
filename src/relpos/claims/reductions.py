"""Relative error reductions without looking at what is scored: S is chosen on one half of the dev set and scored on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relpos.claims.comparisons import Higher
from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding, joined
from relpos.claims.gains import among, pretraining_means
from relpos.claims.scales import Scale, Scales, Scores, Seed
from relpos.tables.intervals import answers
from relpos.tables.statistics import paired


@dataclass(frozen=True)
class ErrorReduction:
    """100·(score − base)/(100 − base) of the row among `choices` that is best on half of the examples, scored on the others.

    Even examples choose and odd ones score, then the other way round; the mean of both counts, for each pre-training the mean over
    its fine-tunings. Holds: no column's mean lies below zero, and the 95 % interval of the mean over columns lies above. Fails: it
    lies below zero. `columns`: these alone, where the claim is about fewer than GLUE's.
    """

    choices: Sequence[str]
    base: str
    note: str = ""
    columns: Sequence[str] | None = None

    @property
    def says(self) -> str:
        return f"the best of {', '.join(self.choices)} on half of the dev set makes fewer errors than {self.base} on the other half"

    @property
    def rows(self) -> tuple[str, ...]:
        return self.base, *self.choices

    def findings(self, scales: Scales) -> list[Finding]:
        """Of every scale that has all the rows."""
        return [self.at(scale) for scale in scales if scale.has(*self.rows)]

    def twin(self, measure: str, bound: float) -> Higher:
        """The last of the choices against the base, in held-out loss or shuffle gap: there is no dev set to choose on."""
        return Higher([(self.choices[-1], self.base)], measure, bound=bound, note=self.note)

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        names = scale.telling(among(scale.columns(*self.rows), self.columns), *self.rows)
        reductions = {column: by_seed for column in names if (by_seed := self._column(scale, column))}
        if not reductions:
            return Finding(NOT_RUN, "needs fine-tunings that kept their answers on the dev sets", scale.label)
        seeds = sorted(set.intersection(*map(set, reductions.values())))
        means = pretraining_means({seed: float(np.mean([by_seed[seed] for by_seed in reductions.values()])) for seed in seeds})
        each = {column: float(np.mean(list(pretraining_means(by_seed).values()))) for column, by_seed in reductions.items()}
        said = ", ".join(f"{column} {value:+.1f} %" for column, value in each.items())
        tested = paired(list(means.values()), [0.0] * len(means))
        if tested is None:
            return Finding(UNDECIDED, joined([said, self.note]), scale.label, takes="two pre-training seeds or more of each row")
        verdict = UNDECIDED
        if tested.high < 0:
            verdict = FAILS
        elif tested.low > 0 and min(each.values()) >= 0:
            verdict = HOLDS
        said += f"; mean {tested.value:+.1f} % [{tested.low:+.1f}, {tested.high:+.1f}] over {tested.n} pre-training seeds"
        return Finding(verdict, joined([said, self.note]), scale.label, tested.p)

    def _column(self, scale: Scale, column: str) -> dict[Seed, float]:
        """Seed → reduction, of the seeds that all rows have kept answers of."""
        scores = {row: scale.scores[row][column] for row in self.rows}
        shared = [seed for seed in scores[self.base].answers if all(seed in of_row.answers for of_row in scores.values())]
        halves = {row: [_halves(of_row, seed) for seed in shared] for row, of_row in scores.items()}
        reductions: dict[Seed, float] = {}
        for place, seed in enumerate(shared):
            both = []
            for half in (0, 1):
                chosen = max(self.choices, key=lambda row: float(np.mean([of_seed[half] for of_seed in halves[row]])))
                score, base = (halves[row][place][1 - half] for row in (chosen, self.base))
                both.append(100 * (score - base) / (100 - base) if base < 100 else 0.0)
            reductions[seed] = sum(both) / 2
        return reductions


def _halves(scores: Scores, seed: Seed) -> tuple[float, float]:
    """The score × 100 on even and on odd examples."""
    module, _, name = scores.metric.rpartition(".")
    metric: Any = getattr(import_module(module), name)
    pairs: NDArray[np.float64] = answers(scores.answers[seed])
    even, odd = (100 * metric(pairs[half::2, 0], pairs[half::2, 1]) for half in (0, 1))
    return float(even), float(odd)

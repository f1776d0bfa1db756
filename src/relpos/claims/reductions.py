"""Relative error reductions without looking at what is scored: S is chosen on one half of the dev set and scored on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding, decided
from relpos.claims.gains import among, pretraining_means
from relpos.claims.scales import Scale, Scales, Scores, Seed
from relpos.tables.intervals import answers
from relpos.tables.statistics import paired


@dataclass(frozen=True)
class ErrorReduction:
    """100·(score − base)/(100 − base) of the row among `choices` that is best on half of the examples, scored on the others.

    Even examples choose and odd ones score, then the other way round; the mean of both counts, a seed at a time; of several
    pre-trainings, the mean over the fine-tunings of each. Holds: no column's mean lies below zero, and the 95 % interval of the
    mean over columns lies above. Fails: it lies below zero. `columns`: these alone, where the claim is about fewer than GLUE's.
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
        return [self.at(scale) for scale in scales if scale.has(*self.rows)]

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        columns = {column: self._column(scale, column) for column in among(scale.telling(*self.rows), self.columns)}
        known = {column: found for column, found in columns.items() if found}
        if not known:
            return Finding(NOT_RUN, "needs fine-tunings that kept their answers on the dev sets", scale.label)
        seeds = sorted(set.intersection(*(set(found) for found in known.values())))
        means = pretraining_means({seed: float(np.mean([found[seed] for found in known.values()])) for seed in seeds})
        test = paired(list(means.values()), [0.0] * len(means))
        each = {column: float(np.mean(list(pretraining_means(found).values()))) for column, found in known.items()}
        verdict = UNDECIDED
        if test is not None and test.high < 0:
            verdict = FAILS
        elif test is not None and test.low > 0 and min(each.values()) >= 0:
            verdict = HOLDS
        said = ", ".join(f"{column} {value:+.1f} %" for column, value in each.items())
        by_pretrainings = any(isinstance(unit, int) for unit in means)
        kind = "pre-training" if by_pretrainings else "fine-tuning"
        said += f"; mean {test.value:+.1f} % [{test.low:+.1f}, {test.high:+.1f}] over {test.n} {kind} seeds" if test else ""
        return decided([(verdict, by_pretrainings)], [said, self.note], scale.label)

    def _column(self, scale: Scale, column: str) -> dict[Seed, float]:
        """Seed → reduction, of the seeds that all rows have kept answers of."""
        scores = {row: scale.scores[row][column] for row in self.rows}
        shared = [seed for seed in scores[self.base].answers if all(seed in one.answers for one in scores.values())]
        halves = {row: [_halves(one, seed) for seed in shared] for row, one in scores.items()}
        found: dict[Seed, float] = {}
        for place, seed in enumerate(shared):
            both = []
            for chooses in (0, 1):
                chosen = max(self.choices, key=lambda row: float(np.mean([one[chooses] for one in halves[row]])))
                own, base = (halves[row][place][1 - chooses] for row in (chosen, self.base))
                both.append(100 * (own - base) / (100 - base) if base < 100 else 0.0)
            found[seed] = sum(both) / 2
        return found


def _halves(scores: Scores, seed: Seed) -> tuple[float, float]:
    """The score × 100 on even and on odd examples."""
    module, _, name = scores.metric.rpartition(".")
    metric: Any = getattr(import_module(module), name)
    pairs: NDArray[np.float64] = answers(scores.answers[seed])
    even, odd = (100 * metric(pairs[half::2, 0], pairs[half::2, 1]) for half in (0, 1))
    return float(even), float(odd)

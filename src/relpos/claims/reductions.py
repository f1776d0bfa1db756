"""Relative error reductions without choosing on the examples that are scored: S is chosen on one half of the dev set, scored on the
other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relpos.claims.comparisons import Higher, mean_without_loss
from relpos.claims.effort import to_decide
from relpos.claims.finding import NOT_RUN, UNDECIDED, Evidence, Finding, joined
from relpos.claims.gains import MEAN, among, pretraining_means
from relpos.claims.requirements import Requirements, of_column
from relpos.claims.scales import Scale, Scales, Scores, Seed
from relpos.tables.intervals import answers
from relpos.tables.statistics import Difference, paired
from relpos.trust import find


@dataclass(frozen=True)
class ErrorReduction:
    """100·(score − base)/(100 − base) of the row among `choices` that is best on half of the examples, scored on the other half.

    One S is chosen for all columns, by the mean over columns and fine-tunings: on even examples to be scored on odd ones, then the
    other way round; the mean of both counts. Units are pre-trainings, each the mean over its fine-tunings. Holds: the reduction of
    the errors of all columns together is above zero (one-sided, 0.05), and that of no column clearly below, by Holm's correction.
    Fails: that of all columns or of one is below.

    Args:
        choices: rows.
        base: the row without TISA.
        columns: those that the claim is about; None: all of GLUE's.
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

    @property
    def requires(self) -> Requirements:
        """Scores in at least one column."""
        return of_column(MEAN, self.columns)

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each scale that has all the rows."""
        return [self.at(scale) for scale in scales if scale.has(*self.rows)]

    def twin(self, measure: str, bound: float) -> Higher:
        """The last of the choices against the base, in held-out loss or shuffle gap: there is no dev set to choose on."""
        return Higher([(self.choices[-1], self.base)], measure, bound=bound, note=self.note)

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        names = scale.telling(among(scale.columns(*self.rows), self.columns), *self.rows)
        reductions = self._reductions(scale, names)
        if not reductions:
            return Finding(NOT_RUN, "needs fine-tunings that kept their answers on the dev sets", scale.label)
        by_column = {
            column: pretraining_means({seed: _reduction([each]) for seed, each in by_seed.items()})
            for column, by_seed in reductions.items()
        }
        said = ", ".join(f"{column} {float(np.mean(list(each.values()))):+.1f} %" for column, each in by_column.items())
        seeds = sorted(set.intersection(*map(set, reductions.values())))
        together = pretraining_means({seed: _reduction([by_seed[seed] for by_seed in reductions.values()]) for seed in seeds})
        tested = _above_zero(together)
        if tested is None:
            return Finding(UNDECIDED, joined([said, self.note]), scale.label, takes="two pre-training seeds or more of each row")
        both_sides = mean_without_loss(tested, [part for each in by_column.values() if (part := _above_zero(each))])
        evidence = Evidence(both_sides.holds / 2, both_sides.fails)
        said += f"; together {tested.value:+.1f} % [{tested.low:+.1f}, {tested.high:+.1f}] over {tested.n} {scale.units}"
        takes = to_decide(scale, [tested]) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, joined([said, self.note]), scale.label, evidence.p, takes)

    def _reductions(self, scale: Scale, names: Sequence[str]) -> dict[str, dict[Seed, tuple[float, float]]]:
        """Column → seed → points that the chosen row gains on the other half, and errors of the base there; means over the halves.

        Has the columns and seeds for which all rows have kept their answers.
        """
        shared = {column: self._shared(scale, column) for column in names}
        halves = {
            row: {
                column: {seed: self.halves(column, scale.scores[row][column], seed) for seed in seeds}
                for column, seeds in shared.items()
                if seeds
            }
            for row in self.rows
        }
        parts: dict[str, dict[Seed, list[tuple[float, float]]]] = {
            column: {seed: [] for seed in by_seed} for column, by_seed in halves[self.base].items()
        }
        for half in (0, 1) if parts else ():
            chosen = max(self.choices, key=lambda row: _mean_of_half(halves[row].values(), half))
            for column, by_seed in parts.items():
                for seed in by_seed:
                    score, base = halves[chosen][column][seed][1 - half], halves[self.base][column][seed][1 - half]
                    by_seed[seed].append((score - base, 100 - base))
        return {
            column: {seed: (sum(gain for gain, _ in both) / 2, sum(left for _, left in both) / 2) for seed, both in by_seed.items()}
            for column, by_seed in parts.items()
        }

    def _shared(self, scale: Scale, column: str) -> list[Seed]:
        """Seeds for which all rows have kept their answers."""
        scores = [scale.scores[row][column] for row in self.rows]
        return [seed for seed in scores[0].answers if all(seed in of_row.answers for of_row in scores)]

    def halves(self, column: str, scores: Scores, seed: Seed) -> tuple[float, float]:
        """The score × 100 of a fine-tuning on even and on odd examples."""
        metric = find(scores.metric, "metric", "task.metric")
        pairs: NDArray[np.float64] = answers(scores.answers[seed])
        even, odd = (100 * metric(pairs[half::2, 0], pairs[half::2, 1]) for half in (0, 1))
        return float(even), float(odd)


def _reduction(parts: Sequence[tuple[float, float]]) -> float:
    """Per cent of the errors that are gone, over columns with these (gain, errors)."""
    errors = sum(errors for _, errors in parts)
    return 100 * sum(gain for gain, _ in parts) / errors if errors else 0.0


def _above_zero(by_seed: Mapping[int, float]) -> Difference | None:
    return paired(list(by_seed.values()), [0.0] * len(by_seed))


def _mean_of_half(columns: Iterable[Mapping[Seed, tuple[float, float]]], half: int) -> float:
    """Mean over columns of the mean score on one half of the examples."""
    return float(np.mean([np.mean([both[half] for both in by_seed.values()]) for by_seed in columns]))

"""The base of all judgements: it asks every scale, and completes the verdicts.

A judgement is data: the keys under `test` of a claim are the fields of the class that `rule` names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from relpos.claims.verdict import Verdict, joined
from relpos.results.plateau import NONE
from relpos.results.scale import Scale, Scales, short_travel
from relpos.results.statistics import NOT_HERE, NOT_RUN, UNDECIDED


@dataclass(frozen=True)
class Judgement:
    """The test of one claim."""

    @property
    def says(self) -> str:
        """The condition under which the claim holds, in one line."""
        raise NotImplementedError

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows whose runs the judgement needs."""
        return ()

    def in_nats(self, measure: str, bound: float) -> Judgement | None:
        """The same judgement in `loss` (held-out loss) or `order` (shuffle gap); None if it does
        not compare rows. Differences below `bound`, in nats, count as none."""
        return None

    def judge(self, scale: Scale) -> Verdict | None:
        """The verdict at one scale; None where the scale shows nothing about the claim."""
        raise NotImplementedError

    def verdicts(self, runs: Scales) -> list[Verdict]:
        """A verdict for each scale that shows something about the claim, the largest last."""
        judged = [(scale, self.judge(scale)) for scale in runs]
        return [self._at(scale, verdict) for scale, verdict in judged if verdict]

    def _at(self, scale: Scale, verdict: Verdict) -> Verdict:
        # Parameters that could not move far may alone make rows differ; `none` has none.
        moved = [scale.travels.get(row) for row in self.rows if row != NONE]
        slow = "" if verdict.verdict == NOT_RUN else short_travel(moved)
        is_open = verdict.verdict in (UNDECIDED, NOT_HERE)
        return replace(
            verdict,
            figures=joined([verdict.figures, slow]),
            scale=scale.label,
            takes=verdict.takes if is_open else "",
            is_aside=not scale.is_of_paper,
        )

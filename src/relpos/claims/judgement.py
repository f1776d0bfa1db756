"""What is common to all judgements: where they look, and what is said around their figures.

A judgement is data: the keys under `test` of a claim are the fields of one of the classes here,
which `rule` names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from relpos.claims.verdict import Verdict, joined
from relpos.results.plateau import NONE
from relpos.results.scale import Scale, Scales, short_travel
from relpos.results.statistics import NOT_HERE, NOT_RUN, UNDECIDED


@dataclass(frozen=True)
class Judgement:
    """How one claim is judged."""

    @property
    def says(self) -> str:
        """What must be true for the claim to hold; one line."""
        raise NotImplementedError

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows whose runs it needs, each once."""
        return ()

    def in_nats(self, measure: str, bound: float) -> Judgement | None:
        """The same judgement in `loss` (held-out loss) or `order` (shuffle gap), where differences
        below `bound`, in nats, count as none; None: it does not compare rows."""
        return None

    def judge(self, scale: Scale) -> Verdict | None:
        """The verdict at one scale; None where it says nothing of the claim."""
        raise NotImplementedError

    def verdicts(self, runs: Scales) -> list[Verdict]:
        """A verdict for each scale that says something of the claim, the largest last."""
        found = [(scale, self.judge(scale)) for scale in runs]
        return [self._at(scale, verdict) for scale, verdict in found if verdict]

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

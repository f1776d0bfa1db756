"""The rule about inputs longer than those of the training."""

from __future__ import annotations

from collections.abc import Sequence

from relpos.claims.comparisons import decided
from relpos.claims.effort import models
from relpos.claims.rule import SEVERAL, Requirements, Test, rule
from relpos.claims.verdict import FAILS, NOT_RUN, Evidence, Verdict, all_of, below, joined
from relpos.measures.kinds.lengths import ByLength, kept_losses
from relpos.results.scale import Scale
from relpos.results.statistics import Difference, paired

TIMES = (2, 4)


@rule(
    "held-out loss of {row} at 2 and 4 times the trained length is less than {bound} nats higher than at it",
    lambda test: Requirements(SEVERAL),
)
def serves_longer(test: Test, scale: Scale, *, bound: float = 0.02) -> Verdict | None:
    """Held-out loss at two and four times the trained length is not higher than at that length by `bound` nats or more.

    The losses are those that a table with `lengths:` has measured and kept in the runs' folders, on the same text under the same
    masks. Holds: the 95 % interval of the difference over pre-training seeds lies below `bound` at both lengths. Fails: it lies
    above at one of them, or the scheme refuses such inputs. The losses of `others` are shown and do not decide.
    """
    if test.row not in scale.folders:
        return None
    length = int(scale.meaning["length"])
    lengths = [length, *(times * length for times in TIMES)]
    kept = {row: list(map(kept_losses, scale.folders[row].values())) for row in test.rows if row in scale.folders}
    measured = {row: [losses for losses in of_row if all(n in losses for n in lengths)] for row, of_row in kept.items()}
    if not (ours := measured[test.row]):
        needs = f"needs held-out losses of {test.row} at {', '.join(map(str, lengths))} tokens (lengths: in an experiment file)"
        return Verdict(NOT_RUN, needs)
    said = [_said(row, of_row, lengths) for row, of_row in measured.items() if of_row]
    # A refusal needs no statistics: it is a property of the scheme.
    if any(losses[n] is None for losses in ours for n in lengths):
        return Verdict(FAILS, joined(said))
    # None cannot be among them any more: it is decided above.
    at_length = {n: [losses[n] or 0.0 for losses in ours] for n in lengths}
    tested = {n: paired(at_length[n], at_length[length]) for n in lengths[1:]}
    said += [f"{n} tokens [{each.low:+.3f}, {each.high:+.3f}]" for n, each in tested.items() if each]
    needs = models(scale, test.row, SEVERAL, f"measured at {lengths}")

    def judge(known: Sequence[Difference]) -> Evidence:
        return all_of([below(each, bound) for each in known])

    return decided(scale, said, list(tested.values()), judge, needs, against=bound, of_row=test.row)


def _said(row: str, measured: Sequence[ByLength], lengths: Sequence[int]) -> str:
    """`tisa +0.010 at 256, refuses 512`: mean difference to the trained length, over the seeds."""
    parts = []
    for n in lengths[1:]:
        both = [(losses[n], losses[lengths[0]]) for losses in measured]
        known = [now - before for now, before in both if now is not None and before is not None]
        parts.append(f"{sum(known) / len(known):+.3f} at {n}" if len(known) == len(both) else f"refuses {n}")
    return f"{row} {', '.join(parts)}"

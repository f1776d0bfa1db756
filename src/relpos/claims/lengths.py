"""Claims about inputs longer than those of the training."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from relpos.claims.effort import models, to_decide
from relpos.claims.finding import NOT_RUN, UNDECIDED, Evidence, Finding, all_of, joined
from relpos.claims.requirements import SEVERAL, Requirements
from relpos.claims.scales import Scale, Scales
from relpos.tables.statistics import Difference, paired

TIMES = (2, 4)


@dataclass(frozen=True)
class ServesLonger:
    """Held-out loss at two and four times the trained length is not higher than at that length by `bound` or more.

    The losses are those that a table with `lengths:` has measured and kept in the runs' folders, on the same text under the same
    masks. Holds: the 95 % interval of the difference over pre-training seeds lies below `bound` at both lengths. Fails: it lies
    above at one of them, or the scheme refuses such inputs. The losses of `others` are shown and do not decide.

    Args:
        row: the scheme.
        others: further rows, to compare with.
        bound: nats.
    """

    row: str
    others: Sequence[str] = ()
    bound: float = 0.02

    @property
    def says(self) -> str:
        return f"held-out loss of {self.row} at 2 and 4 times the trained length is less than {self.bound} nats higher than at it"

    @property
    def rows(self) -> tuple[str, ...]:
        return self.row, *self.others

    @property
    def requires(self) -> Requirements:
        """Several pre-trainings."""
        return Requirements(SEVERAL)

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each scale with pre-trainings of the row."""
        return [self.at(scale) for scale in scales if self.row in scale.folders]

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        length = int(scale.meaning["length"])
        losses = {row: _losses(scale, row) for row in self.rows if row in scale.folders}
        lengths = [length, *(times * length for times in TIMES)]
        measured = {
            row: {seed: by_length for seed, by_length in of_row.items() if all(n in by_length for n in lengths)}
            for row, of_row in losses.items()
        }
        if not measured[self.row]:
            needs = f"needs held-out losses of {self.row} at {', '.join(map(str, lengths))} tokens (lengths: in an experiment file)"
            return Finding(NOT_RUN, needs, scale.label)
        said = [_said(row, of_row, lengths) for row, of_row in measured.items() if of_row]
        ours = measured[self.row].values()
        if any(by_length[n] is None for by_length in ours for n in lengths):
            evidence = Evidence(1.0, 0.0)
            return Finding(evidence.verdict, joined(said), scale.label)
        at_length = {n: [by_length[n] or 0.0 for by_length in ours] for n in lengths}
        tested = [paired(at_length[n], at_length[length]) for n in lengths[1:]]
        known = [each for each in tested if each]
        if not known:
            return Finding(UNDECIDED, joined(said), scale.label, takes=models(scale, self.row, 2, f"measured at {lengths}"))
        evidence = all_of([self._judge(each) for each in known])
        said += [f"{n} tokens [{each.low:+.3f}, {each.high:+.3f}]" for n, each in zip(lengths[1:], known, strict=True)]
        takes = to_decide(scale, known, self.bound, of_row=self.row) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, joined(said), scale.label, evidence.p, takes)

    def _judge(self, tested: Difference) -> Evidence:
        p = tested.p_against(self.bound)
        return Evidence(p, 1.0) if tested.value < self.bound else Evidence(1.0, p)


def _losses(scale: Scale, row: str) -> dict[int, dict[int, float | None]]:
    """Seed → length → held-out loss, None where the scheme refuses it; empty where nothing was measured."""
    losses: dict[int, dict[int, float | None]] = {}
    for seed, folder in scale.folders[row].items():
        for path in sorted(folder.glob("lengths-*.json")):
            try:
                losses.setdefault(seed, {}).update(
                    {int(n): loss for n, loss in json.loads(path.read_text(encoding="utf-8")).items()}
                )
            except (ValueError, AttributeError):
                print(f"relpos: damaged results {path}: delete the file to measure anew", file=sys.stderr)
    return losses


def _said(row: str, losses: dict[int, dict[int, float | None]], lengths: Sequence[int]) -> str:
    """`tisa +0.010 at 256, refuses 512`: mean difference to the trained length, over the seeds."""
    parts = []
    for n in lengths[1:]:
        gains = [(by_length[n], by_length[lengths[0]]) for by_length in losses.values()]
        known = [now - before for now, before in gains if now is not None and before is not None]
        parts.append(f"{sum(known) / len(known):+.3f} at {n}" if len(known) == len(gains) else f"refuses {n}")
    return f"{row} {', '.join(parts)}"

"""By how much the held-out loss rises when each row is read from right to left."""

from __future__ import annotations

from dataclasses import dataclass

from relpos.analysis.shuffle_gap import MIRROR, MIRRORED, gaps
from relpos.measures.measure import Figure, Measure, MeasuredColumn, by_example
from relpos.measures.sample import Sample
from relpos.ranges import Count
from relpos.readers import Plain

GAP = "mirror_gap"


@dataclass(frozen=True)
class Mirror(Measure):
    """Loss of reversed minus loss of ordered text, in nats per predicted token, see
    `relpos.analysis.shuffle_gap`."""

    examples: Count = 1_000

    place = 2
    columns = (MeasuredColumn(GAP, "mirror gap"),)
    note = (
        "Mirror gap: nats that the held-out loss rises when each row is read from right to left, "
        "its special tokens and the pieces inside its words too, which a shuffle leaves as they "
        "are (0 = direction is not noticed)."
    )
    details = ("mirror_gap_by_example",)

    def measure(self, sample: Sample) -> Plain:
        """`mirror_gap`, `mirror_gap_interval`; and `mirror_gap_by_example`, of each held-out
        example its predicted tokens and the nats by which reading it from right to left raises
        their loss."""
        examples = sample.heldout(self.examples)
        with sample.bar("reversed text", 2 * len(examples)) as advance:
            gap = gaps(sample.model, examples, MIRRORED, advance)
        details = by_example(examples, gap.predicted, nats=gap.differences[MIRROR])
        return {
            GAP: gap.gaps[MIRROR],
            f"{GAP}_interval": gap.intervals[MIRROR],
            f"{GAP}_by_example": details,
        }

    def figure(self, column: str, results: Plain) -> Figure | None:
        if GAP not in results:
            return None
        details = results[f"{GAP}_by_example"]
        ends = tuple(results[f"{GAP}_interval"])
        return Figure.of_examples(results[GAP], ends, details, "nats")

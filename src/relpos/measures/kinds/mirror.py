"""By how much the held-out loss rises when each row is read from right to left."""

from __future__ import annotations

from typing import Any

import numpy as np

from relpos.measures.dials import Dials
from relpos.measures.measure import Figure, Measure, MeasuredColumn, Results
from relpos.measures.sample import Sample

GAP = "mirror_gap"
BY_EXAMPLE = "mirror_gap_by_example"


class Mirror(Measure):
    """Loss of reversed minus loss of ordered text, in nats per predicted token, see `relpos.analysis.mirror_gap`."""

    place = 2
    columns = (MeasuredColumn(GAP, "mirror gap"),)
    note = (
        "Mirror gap: nats that the held-out loss rises when each row is read from right to left, its special tokens too "
        "(0 = direction is not noticed)."
    )
    details = (BY_EXAMPLE,)

    def meaning(self, dials: Dials, toy: bool) -> dict[str, Any]:
        return {"examples": dials.examples}

    def measure(self, sample: Sample) -> Results:
        """`mirror_gap`, `mirror_gap_interval`; and `mirror_gap_by_example`, of each held-out example its predicted tokens and the
        nats by which reading it from right to left raises their loss."""
        from relpos.analysis.mirror_gap import KEY, mirror_gap

        examples = sample.heldout()
        with sample.bar("reversed text", 2 * len(examples)) as advance:
            found = mirror_gap(sample.model, examples, advance)
        # Each example's sum and tokens, because an interval over networks draws examples anew.
        by_example = {"predicted": found.predicted.astype(int).tolist(), "nats": found.differences[KEY].round(4).tolist()}
        return {GAP: found.gaps[KEY], "mirror_gap_interval": found.intervals[KEY], BY_EXAMPLE: by_example}

    def figure(self, column: str, results: Results) -> Figure | None:
        if GAP not in results:
            return None
        low, high = results["mirror_gap_interval"]
        parts = np.array([results[BY_EXAMPLE]["nats"], results[BY_EXAMPLE]["predicted"]], np.float64)
        return Figure(results[GAP], (low, high), parts=parts)

    def tokens(self, dials: Dials, toy: bool, length: int) -> float:
        return 2.0 * dials.examples * length

    def said(self, results: Results) -> list[str]:
        return [f"mirror gap {results[GAP]:.3f} nats"] if GAP in results else []

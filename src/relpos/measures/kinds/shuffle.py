"""By how much the held-out loss rises when the words of each sentence are put in random order."""

from __future__ import annotations

from typing import Any

import numpy as np

from relpos.measures.dials import Dials
from relpos.measures.measure import Figure, Measure, MeasuredColumn, Results
from relpos.measures.sample import Sample

LOSS = "heldout_loss"


class Shuffle(Measure):
    """Loss of shuffled minus loss of ordered text, in nats per predicted token, see `relpos.analysis.shuffle_gap`."""

    place = 1
    columns = (
        MeasuredColumn(LOSS, "held-out loss", snapshots_only=True),
        MeasuredColumn("shuffle_gap", "shuffle gap"),
    )
    note = (
        "Shuffle gap: nats that the held-out loss rises when the words of each sentence are put in random order (0 = order is not "
        "noticed)."
    )
    details = ("by_example",)

    def meaning(self, dials: Dials, toy: bool) -> dict[str, Any]:
        return {"examples": dials.examples}

    def measure(self, sample: Sample) -> Results:
        """`shuffle_gap` {"2": nats, …, "all": nats}, `shuffle_gap_intervals`, `heldout_loss`, `examples`; and `by_example`, of each
        held-out example its predicted tokens, their loss in nats, and by how much shuffling all words raises it."""
        from relpos.analysis.shuffle_gap import shuffle_gap
        from relpos.data.shuffle import WINDOWS

        examples = sample.heldout()
        with sample.bar("shuffled text", len(examples) * (1 + len(WINDOWS))) as advance:
            gap = shuffle_gap(sample.model, examples, sample.words, advance)
        # For each example, because an interval over several networks draws the examples anew; four digits keep it small.
        by_example = {
            "predicted": gap.predicted.astype(int).tolist(),
            "loss": gap.losses.round(4).tolist(),
            "all": gap.differences["all"].round(4).tolist(),
        }
        return {
            "shuffle_gap": gap.gaps,
            "shuffle_gap_intervals": gap.intervals,
            "heldout_loss": gap.loss,
            "examples": len(examples),
            "by_example": by_example,
        }

    def figure(self, column: str, results: Results) -> Figure | None:
        if column == LOSS:
            return Figure(results[LOSS]) if LOSS in results else None
        if "shuffle_gap" not in results:
            return None
        low, high = results["shuffle_gap_intervals"]["all"]
        parts = np.array([results["by_example"]["all"], results["by_example"]["predicted"]], np.float64)
        return Figure(results["shuffle_gap"]["all"], (low, high), parts=parts)

    def tokens(self, dials: Dials, toy: bool, length: int) -> float:
        from relpos.data.shuffle import WINDOWS

        return float(dials.examples * length * (1 + len(WINDOWS)))

    def said(self, results: Results) -> list[str]:
        return [f"shuffle gap {results['shuffle_gap']['all']:.3f} nats"] if "shuffle_gap" in results else []

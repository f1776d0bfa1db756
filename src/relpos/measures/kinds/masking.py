"""Held-out loss, shuffle gap and mirror gap with more and with fewer tokens masked than in training."""

from __future__ import annotations

from typing import Any

import numpy as np

from relpos.measures.dials import Dials, NothingToMeasure
from relpos.measures.measure import Figure, Measure, MeasuredColumn, Results
from relpos.measures.sample import Sample
from relpos.runs.networks import Network

RATES = (5, 15, 30, 50, 80)
"""Per cents of the tokens that are predicted."""
LOSS, SHUFFLE, MIRROR = "loss", "shuffle_gap", "mirror_gap"
BY_EXAMPLE = "masking_by_example"


class Masking(Measure):
    """Nats per predicted token at each per cent of masked tokens, see `relpos.analysis.masking_rates`."""

    place = 6
    columns = tuple(
        MeasuredColumn(f"{quantity}_masked_{rate}", f"{quantity.replace('_', ' ')}, {rate} % masked")
        for quantity in (LOSS, SHUFFLE, MIRROR)
        for rate in RATES
    )
    note = (
        "With 5 to 80 % of the tokens masked: held-out loss in nats per predicted token, and by how much it rises when the words"
        " of each sentence are put in random order (shuffle gap) and when each row is read from right to left (mirror gap)."
    )
    details = (BY_EXAMPLE,)

    def suits(self, network: Network) -> bool:
        """Only where it is named: it is fifteen passes over the examples, and the shuffle gap six."""
        return False

    def meaning(self, dials: Dials, toy: bool) -> dict[str, Any]:
        return {"examples": dials.examples, "rates": list(RATES)}

    def measure(self, sample: Sample) -> Results:
        """`masking` {"5": {"loss", "shuffle_gap", "shuffle_gap_interval", "mirror_gap", "mirror_gap_interval"}, …, "80": …}; and
        `masking_by_example`, at each rate of each held-out example its predicted tokens, their loss, and how much both changes
        raise it."""
        from relpos.analysis import masking_rates

        if sample.model.encoder.causal:
            raise NothingToMeasure(f"{sample.network.name}: a causal network has no masks")
        examples = sample.heldout()
        with sample.bar("masked text", 3 * len(RATES) * len(examples)) as advance:
            found = masking_rates.masking_rates(sample.model, examples, sample.words, RATES, advance)
        gaps = {SHUFFLE: masking_rates.SHUFFLE, MIRROR: masking_rates.MIRROR}
        return {
            "masking": {
                str(rate): {LOSS: at.loss}
                | {name: at.gaps[key] for name, key in gaps.items()}
                | {f"{name}_interval": at.intervals[key] for name, key in gaps.items()}
                for rate, at in found.items()
            },
            BY_EXAMPLE: {
                str(rate): {"predicted": at.predicted.astype(int).tolist(), LOSS: at.losses.round(4).tolist()}
                | {name: at.differences[key].round(4).tolist() for name, key in gaps.items()}
                for rate, at in found.items()
            },
        }

    def figure(self, column: str, results: Results) -> Figure | None:
        quantity, _, rate = column.partition("_masked_")
        if rate not in results.get("masking", {}):
            return None
        at, by_example = results["masking"][rate], results[BY_EXAMPLE][rate]
        interval = at.get(f"{quantity}_interval")
        parts = np.array([by_example[quantity], by_example["predicted"]], np.float64)
        return Figure(at[quantity], tuple(interval) if interval else None, parts=parts)

    def tokens(self, dials: Dials, toy: bool, length: int) -> float:
        return 3.0 * len(RATES) * dials.examples * length

    def said(self, results: Results) -> list[str]:
        rates = results.get("masking", {})
        return [f"shuffle gap at {rate} % masked {at[SHUFFLE]:.3f}" for rate, at in rates.items() if rate in ("5", "80")]

"""Held-out loss, shuffle gap and mirror gap with more and with fewer tokens masked than in
training."""

from __future__ import annotations

from dataclasses import dataclass

from relpos.analysis.shuffle_gap import ALL, MIRROR, MIRRORED, gaps, shuffled
from relpos.data.objective import Masked
from relpos.measures.measure import Figure, Measure, MeasuredColumn, NothingToMeasure, by_example
from relpos.measures.sample import Sample
from relpos.ranges import Count
from relpos.readers import Plain

RATES = (5, 15, 30, 50, 80)
"""Per cents of the tokens that are predicted."""
LOSS, SHUFFLE_GAP, MIRROR_GAP = "loss", "shuffle_gap", "mirror_gap"
BY_EXAMPLE = "masking_by_example"


@dataclass(frozen=True)
class Masking(Measure):
    """Nats per predicted token at each per cent of masked tokens, see
    `relpos.analysis.shuffle_gap`.

    What order is worth depends on how much of the text is left to read. A token that is chosen at
    one rate is chosen at every higher one, and what stands in its place is the same.
    """

    examples: Count = 1_000
    rates: tuple[int, ...] = RATES

    place = 6
    columns = tuple(
        MeasuredColumn(
            f"{quantity}_masked_{rate}",
            f"{quantity.replace('_', ' ')}, {rate} % masked",
        )
        for quantity in (LOSS, SHUFFLE_GAP, MIRROR_GAP)
        for rate in RATES
    )
    note = (
        "With 5 to 80 % of the tokens masked: held-out loss in nats per predicted token, and by "
        "how much it rises when the words of each sentence are put in random order (shuffle gap) "
        "and when each row is read from right to left, the pieces inside words too (mirror gap)."
    )
    details = (BY_EXAMPLE,)
    by_name = True  # fifteen passes over the examples, and the shuffle gap is six

    def measure(self, sample: Sample) -> Plain:
        """`masking` {"5": {"loss", "shuffle_gap", "shuffle_gap_interval", "mirror_gap",
        "mirror_gap_interval"}, …, "80": …}; and `masking_by_example`, at each rate of each held-out
        example its predicted tokens, their loss, and how much both changes raise it."""
        if sample.model.encoder.causal:
            raise NothingToMeasure(f"{sample.network.name}: a causal network has no masks")
        examples = sample.heldout(self.examples)
        changes = {SHUFFLE_GAP: shuffled(sample.words)[ALL], MIRROR_GAP: MIRRORED[MIRROR]}
        results: Plain = {"masking": {}, BY_EXAMPLE: {}}
        with sample.bar("masked text", 3 * len(self.rates) * len(examples)) as advance:
            for rate in self.rates:
                masks = Masked(rate / 100, rate / 100)
                at = gaps(sample.model, examples, changes, advance, masks)
                intervals = {f"{name}_interval": ends for name, ends in at.intervals.items()}
                results["masking"][str(rate)] = {LOSS: at.loss} | at.gaps | intervals
                results[BY_EXAMPLE][str(rate)] = by_example(
                    examples,
                    at.predicted,
                    loss=at.losses,
                    **at.differences,
                )
        return results

    def figure(self, column: str, results: Plain) -> Figure | None:
        quantity, _, rate = column.partition("_masked_")
        if "masking" not in results or rate not in results["masking"]:
            return None
        at = results["masking"][rate]
        ends = tuple(at[f"{quantity}_interval"]) if quantity != LOSS else None
        return Figure.of_examples(at[quantity], ends, results[BY_EXAMPLE][rate], quantity)

    def said(self, results: Plain) -> list[str]:
        if "masking" not in results:
            return []
        return [
            f"shuffle gap at {rate} % masked {at[SHUFFLE_GAP]:.3f}"
            for rate, at in results["masking"].items()
            if rate in ("5", "80")
        ]

"""The pattern that positions add to the scores of the heads of a layer, by offset and as a matrix,
for any scheme."""

from __future__ import annotations

from dataclasses import dataclass

from relpos.analysis.patterns import pattern
from relpos.analysis.toeplitz import toeplitz_r2
from relpos.measures.measure import Measure, plain
from relpos.measures.sample import Sample
from relpos.ranges import Count
from relpos.readers import Plain

NEAR = 8
"""`near` has the offsets −8 … 8."""


@dataclass(frozen=True)
class HeadProfiles(Measure):
    """Profiles of heads, see `relpos.analysis.patterns`; `relpos analyze patterns` draws them.

    Args:
        layer: from 1.
    """

    layer: Count = 1

    by_name = True

    def measure(self, sample: Sample) -> Plain:
        """`pattern`: None where the scheme adds nothing to the scores, else of each head {"mean":
        at the offsets 1−n … n−1, "r2": of the nearest Toeplitz matrix, "near": the mean at −8 … 8
        of sequences of 64 tokens}; n tokens are a whole example."""
        whole = pattern(sample.encoder, self.layer - 1, sample.network.length)
        short = pattern(sample.encoder, self.layer - 1)
        if whole is None or short is None:
            return {"pattern": None}
        r2: list[float | None] = [None] * len(whole.matrix)
        for number, head in enumerate(whole.matrix):
            if head.isfinite().all():  # a causal scheme hides tokens
                r2[number] = toeplitz_r2(head)
        middle = short.mean.shape[1] // 2
        near = short.mean[:, max(0, middle - NEAR) : middle + NEAR + 1]
        return {"pattern": {"mean": plain(whole.mean), "r2": r2, "near": plain(near)}}

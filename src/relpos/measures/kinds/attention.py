"""Where a network's attention goes, by offset."""

from __future__ import annotations

from typing import Any

from relpos.measures.dials import Dials
from relpos.measures.measure import Measure, Results
from relpos.measures.sample import TEXTS, WINDOW, Sample


class Attention(Measure):
    """Attention mass by layer and head, see `relpos.analysis.attention_mass`."""

    place = 5

    def meaning(self, dials: Dials, toy: bool) -> dict[str, Any]:
        return {"texts": TEXTS, "window": WINDOW}

    def measure(self, sample: Sample) -> Results:
        """`attention`."""
        from relpos.analysis.attention_mass import attention_mass

        # On windows that are full: an offset is then as often there in each text.
        return {"attention": attention_mass(sample.model, sample.texts(), sample.tokenizer.marks)}

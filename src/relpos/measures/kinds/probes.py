"""How well a token's place can be read from a network's hidden states of shuffled text."""

from __future__ import annotations

from typing import Any

from relpos.measures.dials import Dials
from relpos.measures.measure import Measure, Results
from relpos.measures.sample import TEXTS, WINDOW, Sample


class Probes(Measure):
    """R² of linear probes by layer, see `relpos.analysis.order_probes`."""

    place = 4

    def meaning(self, dials: Dials, toy: bool) -> dict[str, Any]:
        return {"texts": TEXTS, "window": WINDOW}

    def measure(self, sample: Sample) -> Results:
        """`probes`."""
        from relpos.analysis.order_probes import order_probes
        from relpos.data.shuffle import shuffled

        # Of shuffled text: in ordinary text a word's place can be guessed from the word.
        return {"probes": order_probes(sample.model, shuffled(sample.texts(), sample.words), sample.tokenizer.marks)}

    def said(self, results: Results) -> list[str]:
        # The best layer: order may be used up, and no longer be kept, towards the last.
        return [f"place R² {max(results['probes']['place']):.2f}"] if "probes" in results else []

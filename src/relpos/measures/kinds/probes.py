"""How well a token's place can be read from a network's hidden states of shuffled text."""

from __future__ import annotations

from dataclasses import dataclass

from relpos.measures.measure import Measure, NothingToMeasure, Results
from relpos.measures.sample import Sample
from relpos.ranges import Count

FEWEST = 6
"""Texts, which the probes divide into three parts: to fit, to choose the penalty and to be judged by."""


@dataclass(frozen=True)
class Probes(Measure):
    """R² of linear probes by layer, see `relpos.analysis.order_probes`.

    Args:
        texts: held-out texts at most, of `length` tokens each.
    """

    texts: Count = 256
    length: Count = 32

    place = 4

    def measure(self, sample: Sample) -> Results:
        """`probes`."""
        from relpos.analysis.order_probes import order_probes
        from relpos.analysis.texts import with_edges
        from relpos.data.shuffle import shuffled

        texts = sample.texts(self.texts, self.length).ids
        if len(texts) < FEWEST:
            raise NothingToMeasure(f"{sample.network.name}: {len(texts)} held-out windows of text are too few for probes")
        # Of shuffled text: in ordinary text a word's place can be guessed from the word.
        return {"probes": order_probes(sample.model, with_edges(shuffled(texts, sample.words), sample.tokenizer.marks))}

    def said(self, results: Results) -> list[str]:
        # The best layer: order may be used up, and no longer be kept, towards the last.
        return [f"place R² {max(results['probes']['place']):.2f}"] if "probes" in results else []

"""Where a network's attention goes, by offset (Chang et al. 2021, Figure 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from relpos import style
from relpos.measures.measure import Drawing, Measure, Results
from relpos.measures.sample import Sample
from relpos.ranges import Count


@dataclass(frozen=True)
class Attention(Measure):
    """The mean fraction of a token's attention at each offset, by layer and head, see `relpos.analysis.attention_mass`.

    Args:
        texts: how many.
        length: tokens of each, besides [CLS] and [SEP].
    """

    texts: Count = 256
    length: Count = 32

    place = 5

    def measure(self, sample: Sample) -> Results:
        """`attention` {"offsets", "mass", "before", "after"}."""
        from relpos.analysis.attention_mass import attention_mass

        # On windows that are full: an offset is then as often there in each text.
        ids = sample.texts(self.texts, self.length).with_edges
        return {"attention": attention_mass(sample.any_model, ids)}

    def drawn(self, name: str, results: Results) -> Iterator[Drawing]:
        """A panel for each layer and a line for each head."""
        attention = results["attention"]
        titles = [f"layer {layer}" for layer, _ in enumerate(attention["mass"], 1)]
        title = f"{name}: fraction of attention, a line for each head"
        figure, panels = style.by_layer(attention["offsets"], attention["mass"], titles, title)
        for panel in panels:
            panel.set_ylim(bottom=0)
        rows = [
            {"layer": layer + 1, "head": head + 1}
            | {str(offset): share for offset, share in zip(attention["offsets"], shares, strict=True)}
            | {side: attention[side][layer][head] for side in ("before", "after")}
            for layer, heads in enumerate(attention["mass"])
            for head, shares in enumerate(heads)
        ]
        yield Drawing(f"attention_by_offset-{name}", rows, figure)

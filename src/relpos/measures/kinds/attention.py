"""Where a network's attention goes, by offset (Chang et al. 2021, Figure 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from relpos import style
from relpos.analysis.likelihood import exact
from relpos.data.shuffle import with_edges
from relpos.measures.measure import Drawing, Measure
from relpos.measures.sample import Sample
from relpos.model.encoder import device_of, encoder_of
from relpos.ranges import Count
from relpos.readers import Plain

REACH = 8
_AT_ONCE = 32


@dataclass(frozen=True)
class AttentionByOffset(Measure):
    """The mean fraction of a token's attention at each offset, by layer and head.

    Args:
        texts: how many.
        length: tokens of each, besides [CLS] and [SEP].
    """

    texts: Count = 256
    length: Count = 32

    place = 5

    def measure(self, sample: Sample) -> Plain:
        """`attention`, see `attention_mass`."""
        # On windows that are full: an offset is then as often there in each text.
        ids = with_edges(sample.texts(self.texts, self.length), sample.tokenizer.marks)
        return {"attention": attention_mass(sample.any_model, ids)}

    def drawn(self, name: str, results: Plain) -> Iterator[Drawing]:
        """A panel for each layer and a line for each head."""
        attention = results["attention"]
        offsets = attention["offsets"]
        layers = attention["mass"]
        titles = [f"layer {layer}" for layer, _ in enumerate(layers, 1)]
        title = f"{name}: fraction of attention, a line for each head"
        figure, panels = style.by_layer(layers, titles, title)
        for panel in panels:
            panel.set_ylim(bottom=0)
        rows = []
        for layer, heads in enumerate(layers):
            for head, shares in enumerate(heads):
                row = {"layer": layer + 1, "head": head + 1}
                row |= zip(map(str, offsets), shares, strict=True)
                rows.append(
                    row | {side: attention[side][layer][head] for side in ("before", "after")}
                )
        yield Drawing(f"attention_by_offset-{name}", rows, figure)


def attention_mass(model: nn.Module, ids: Tensor) -> Plain:
    """{"offsets": [−8, …, 8], "mass": (layers, heads, 17), "before": (layers, heads), "after": …}:
    the mean fraction of a token's attention that goes to each offset (+1 = the next token), and to
    all tokens further away on either side. They add up to 1.

    A layer whose heads have no scores (lightweight and dynamic convolution) has an empty list of
    heads.

    Args:
        model: a network with an `encoder`, or an encoder itself.
        ids: (texts, n), with [CLS] and [SEP].
    """
    encoder = encoder_of(model)
    n = ids.shape[1]
    device = device_of(model)
    token = torch.arange(n, device=device)
    column = token - token[:, None] + n - 1
    # In float64: thousands of small fractions are added.
    sums = [torch.zeros(0, 2 * n - 1, dtype=torch.float64)] * encoder.shape.layers
    with exact(model):
        for part in ids.split(_AT_ONCE):
            maps: list[Tensor] = []
            encoder(part.to(device), maps=maps)
            for layer, p in enumerate(maps):  # (B, H, n, n)
                total = p.double().sum(0)
                by_offset = total.new_zeros(len(total), 2 * n - 1)
                by_offset.scatter_add_(1, column.expand_as(total).flatten(1), total.flatten(1))
                sums[layer] = sums[layer] + by_offset if len(sums[layer]) else by_offset
    reach = min(REACH, n - 1)
    first, last = n - 1 - reach, n + reach
    # Every token is a query once, so that the fractions of all offsets add up to 1.
    rows = [(total / (len(ids) * n)).cpu() for total in sums]
    return {
        "offsets": list(range(-reach, reach + 1)),
        "mass": [row[:, first:last].tolist() for row in rows],
        "before": [row[:, :first].sum(1).tolist() for row in rows],
        "after": [row[:, last:].sum(1).tolist() for row in rows],
    }

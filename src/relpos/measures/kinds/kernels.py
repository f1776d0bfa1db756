"""Learned kernels, by layer and head or channel, and what they do (Chang et al. 2021, Figures 2 and
3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from relpos import style
from relpos.analysis.kernels import kind, learned_kernels
from relpos.errors import RelposError
from relpos.measures.kinds.patterns import NEAR
from relpos.measures.measure import Drawing, Measure, plain
from relpos.measures.sample import Sample
from relpos.model.conv.depthwise import Depthwise
from relpos.ranges import at_least
from relpos.readers import Plain


@dataclass(frozen=True)
class Kernels(Measure):
    """What the scheme adds to the score at each offset, summed over its terms, and the depthwise
    kernels of the values.

    Args:
        k: offsets −k … k; None: those of the scheme, or 8.
    """

    k: Annotated[int, at_least(2)] | None = None

    by_name = True

    def measure(self, sample: Sample) -> Plain:
        """`kernels` {"scheme": its name, "head": (layers, heads, 2k+1), "layers": their numbers,
        "channel": the depthwise ones (layers, channels, width)}; an offset without a value is
        None."""
        parts = sample.encoder.layers.modules()
        weights = [part.values.weight for part in parts if isinstance(part, Depthwise)]
        heads = learned_kernels(sample.any_model, k=self.k)
        if any(weight.dim() != 2 for weight in weights):
            weights = []
        return {
            "kernels": {
                "scheme": type(sample.encoder.position).__name__,
                "head": [plain(layer) for layer in heads.values()],
                "layers": list(heads),
                "channel": [plain(weight.detach()) for weight in weights],
            }
        }

    def drawn(self, name: str, results: Plain) -> Iterator[Drawing]:
        """A panel for each layer; each kernel is named by the fixed rules of
        `relpos.analysis.kernels`."""
        kernels = results["kernels"]
        heads = kernels["head"]
        channels = kernels["channel"]
        if not heads and not channels:
            raise RelposError(f"{name}: {kernels['scheme']} has no kernels over the offset")
        if heads:
            title = f"{name}: added to the score"
            yield _drawing(f"kernels-{name}", title, heads, "head", kernels["layers"])
        if channels:
            title = f"{name}: depthwise kernels of the values"
            layers = range(1, len(channels) + 1)
            yield _drawing(f"depthwise-{name}", title, channels, "channel", layers)


def near(results: Plain) -> np.ndarray:
    """(kernels, 17): what a network adds to the scores at offsets −8 … 8, a line for each layer and
    head; NaN where it has none."""
    layers = results["kernels"]["head"] or [np.empty((0, 1))]
    kernels = np.concatenate([np.array(layer, np.float64) for layer in layers])
    half = kernels.shape[1] // 2
    padded = np.pad(kernels, ((0, 0), (NEAR, NEAR)), constant_values=np.nan)
    return padded[:, half : half + 2 * NEAR + 1]


def _drawing(
    name: str,
    title: str,
    kernels: Sequence[ArrayLike],
    unit: str,
    numbers: Sequence[int],
) -> Drawing:
    layers = [np.array(layer, np.float64) for layer in kernels]
    half = layers[0].shape[1] // 2
    offsets = range(-half, half + 1)
    rows, titles = [], []
    for number, layer in zip(numbers, layers, strict=True):
        kinds = [kind(kernel) for kernel in layer]
        for place, kernel in enumerate(layer):
            row = {"layer": number, unit: place + 1, "kind": kinds[place]}
            rows.append(row | dict(zip(map(str, offsets), kernel, strict=True)))
        commonest = [f"{count} {of_kind}" for of_kind, count in Counter(kinds).most_common(3)]
        titles.append(f"layer {number}: {', '.join(commonest)}")
    if len(layers[0]) > style.LINES:
        title += f", the first {style.LINES} {unit}s"
    figure, panels = style.by_layer(layers, titles, title)
    for panel in panels:
        panel.title.set_fontsize(6)
    return Drawing(name, rows, figure)

"""Learned kernels, by layer and head or channel, and what they do (Chang et al. 2021, Figures 2 and
3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from relpos import style
from relpos.analysis.kernels import kind, learned_kernels
from relpos.errors import RelposError
from relpos.measures.kinds.patterns import NEAR
from relpos.measures.measure import Drawing, Measure, Results, plain
from relpos.measures.sample import Sample
from relpos.model.conv import Depthwise
from relpos.ranges import at_least


@dataclass(frozen=True)
class Kernels(Measure):
    """What the scheme adds to the score at each offset, summed over its terms, and the depthwise
    kernels of the values.

    Args:
        k: offsets −k … k; None: those of the scheme, or 8.
    """

    k: Annotated[int, at_least(2)] | None = None

    by_name = True

    def measure(self, sample: Sample) -> Results:
        """`kernels` {"scheme": its name, "head": (layers, heads, 2k+1), "layers": their numbers,
        "channel": the depthwise ones (layers, channels, width)}; an offset without a value is
        None."""
        weights = [
            part.values.weight.detach()
            for part in sample.encoder.layers.modules()
            if isinstance(part, Depthwise)
        ]
        heads = learned_kernels(sample.any_model, k=self.k)
        if any(weight.dim() != 2 for weight in weights):
            weights = []
        return {
            "kernels": {
                "scheme": type(sample.encoder.position).__name__,
                "head": [plain(layer) for layer in heads.values()],
                "layers": list(heads),
                "channel": [plain(weight) for weight in weights],
            }
        }

    def drawn(self, name: str, results: Results) -> Iterator[Drawing]:
        """A panel for each layer; each kernel is named by the fixed rules of
        `relpos.analysis.kernels`."""
        kernels = results["kernels"]
        if not kernels["head"] and not kernels["channel"]:
            raise RelposError(f"{name}: {kernels['scheme']} has no kernels over the offset")
        if kernels["head"]:
            yield _drawing(
                f"kernels-{name}",
                f"{name}: added to the score",
                kernels["head"],
                "head",
                kernels["layers"],
            )
        if kernels["channel"]:
            title = f"{name}: depthwise kernels of the values"
            yield _drawing(f"depthwise-{name}", title, kernels["channel"], "channel")


def near(results: Results) -> np.ndarray:
    """(kernels, 17): what a network adds to the scores at offsets −8 … 8, a line for each layer and
    head; NaN where it has none."""
    layers = [np.array(layer, np.float64) for layer in results["kernels"]["head"]]
    kernels = np.empty((0, 2 * NEAR + 1))
    if layers:
        kernels = np.concatenate(layers)
    half = kernels.shape[1] // 2
    return np.pad(kernels, ((0, 0), (NEAR, NEAR)), constant_values=np.nan)[
        :, half : half + 2 * NEAR + 1
    ]


def _drawing(
    name: str, title: str, kernels: Sequence[Any], unit: str, numbers: Sequence[int] | None = None
) -> Drawing:
    numbers = numbers or range(1, len(kernels) + 1)
    layers = [np.array(layer, np.float64) for layer in kernels]
    half = layers[0].shape[1] // 2
    offsets = range(-half, half + 1)
    kinds = [[kind(kernel) for kernel in layer] for layer in layers]
    rows = [
        {"layer": numbers[layer], unit: place + 1, "kind": kinds[layer][place]}
        | {str(offset): float(value) for offset, value in zip(offsets, kernel, strict=True)}
        for layer, of_layer in enumerate(layers)
        for place, kernel in enumerate(of_layer)
    ]
    titles = []
    for number, of_layer in zip(numbers, kinds, strict=True):
        commonest = ", ".join(f"{count} {name}" for name, count in Counter(of_layer).most_common(3))
        titles.append(f"layer {number}: {commonest}")
    if len(layers[0]) > style.LINES:
        title += f", the first {style.LINES} {unit}s"
    figure, panels = style.by_layer(offsets, layers, titles, title)
    for panel in panels:
        panel.title.set_fontsize(6)
    return Drawing(name, rows, figure)

"""Learned kernels, by layer and head or channel, and what they do (Chang et al. 2021, Figures 2 and 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch

from relpos import style
from relpos.analysis.kernel_types import kind
from relpos.analysis.kernels import learned_kernels
from relpos.analysis.kinds.subject import Drawing, Subject
from relpos.errors import RelposError
from relpos.ranges import at_least


@dataclass(frozen=True)
class Kernels:
    """What the scheme adds to the score at each offset, summed over its terms, and the depthwise kernels of the values.

    Each is named by the fixed rules of `relpos.analysis.kernel_types`.

    Args:
        k: offsets −k … k; None: those of the scheme, or 8.
    """

    k: Annotated[int, at_least(2)] | None = None

    def __call__(self, subjects: Sequence[Subject]) -> Iterator[Drawing]:
        for subject in subjects:
            drawn = list(self._of(subject))
            if not drawn:
                raise RelposError(f"{subject.name}: {type(subject.encoder.position).__name__} has no kernels over the offset")
            yield from drawn

    def _of(self, subject: Subject) -> Iterator[Drawing]:
        added = [layer.numpy() for layer in learned_kernels(subject.model, k=self.k)]
        if added:
            yield _drawing(f"kernels-{subject.name}", f"{subject.name}: added to the score", added, "head")
        layers: Any = subject.encoder.layers
        depthwise = [getattr(getattr(layer.attention.conv, "values", None), "weight", None) for layer in layers]
        weights = [weight.detach().float().cpu().numpy() for weight in depthwise if isinstance(weight, torch.Tensor)]
        if weights and all(weight.ndim == 2 for weight in weights):
            yield _drawing(f"depthwise-{subject.name}", f"{subject.name}: depthwise kernels of the values", weights, "channel")


def _drawing(name: str, title: str, layers: Sequence[np.ndarray], unit: str) -> Drawing:
    half = layers[0].shape[1] // 2
    offsets = range(-half, half + 1)
    figure, axes = style.grid(len(layers), 4, 2.8, 2.1)
    rows: list[dict[str, Any]] = []
    for number, (kernels, panel) in enumerate(zip(layers, axes, strict=True), 1):
        kinds = [kind(kernel) for kernel in kernels]
        for place, kernel in enumerate(kernels):
            # More lines could not be told apart; the table has all.
            if place < 12:
                panel.plot(offsets, kernel, **style.look(place, 0.9))
            rows.append(
                {"layer": number, unit: place + 1, "kind": kinds[place]}
                | {str(o): float(v) for o, v in zip(offsets, kernel, strict=True)}
            )
        style.whole_numbers(panel)
        panel.axvline(0, color="0.8", linewidth=0.5, zorder=0)
        panel.set_title(
            f"layer {number}: " + ", ".join(f"{many} {what}" for what, many in Counter(kinds).most_common(3)), fontsize=6
        )
    figure.supxlabel("offset of the attended token", fontsize=8)
    figure.suptitle(title + (f", the first 12 {unit}s" if len(layers[0]) > 12 else ""), fontsize=9)
    return Drawing(name, rows, figure)

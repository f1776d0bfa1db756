"""Where attention goes, by offset (Chang et al. 2021, Figure 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relpos import style
from relpos.analysis.attention_mass import attention_mass
from relpos.analysis.kinds.subject import Drawing, Subject
from relpos.ranges import Count


@dataclass(frozen=True)
class AttentionByOffset:
    """The mean fraction of a token's attention at each offset, with a panel for each layer and a line for each head.

    Args:
        texts: how many.
        length: tokens of each, besides [CLS] and [SEP].
    """

    texts: Count = 64
    length: Count = 62

    def __call__(self, subjects: Sequence[Subject]) -> Iterator[Drawing]:
        for subject in subjects:
            texts = subject.some_texts(self.texts, self.length)
            attention = attention_mass(subject.model, texts.ids, texts.tokenizer.marks)
            layers = [np.array(layer) for layer in attention["mass"]]
            figure, axes = style.grid(len(layers), 4, 2.8, 2.1)
            rows: list[dict[str, Any]] = []
            for number, (heads, panel) in enumerate(zip(layers, axes, strict=True), 1):
                for head, shares in enumerate(heads):
                    panel.plot(attention["offsets"], shares, **style.look(head, 0.9))
                    rows.append(
                        {"layer": number, "head": head + 1}
                        | {str(offset): float(share) for offset, share in zip(attention["offsets"], shares, strict=True)}
                        | {"before": attention["before"][number - 1][head], "after": attention["after"][number - 1][head]}
                    )
                panel.set_title(f"layer {number}", fontsize=8)
                panel.set_ylim(bottom=0)
                style.whole_numbers(panel)
            figure.supxlabel("offset of the attended token", fontsize=8)
            figure.suptitle(f"{subject.name}: fraction of attention, a line for each head", fontsize=9)
            yield Drawing(f"attention_by_offset-{subject.name}", rows, figure)

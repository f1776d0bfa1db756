"""Position embeddings taken away and TISA put in their place (Wennberg & Henter 2021, Section 5, Appendix C)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from relpos.analysis.kinds import style
from relpos.analysis.kinds.subject import Drawing, Subject, encoder_of
from relpos.analysis.profiles import Choices
from relpos.analysis.recovery import Recovery, Variant, first_layers, train_head, train_tisa
from relpos.errors import RelposError
from relpos.model.heads import MaskedLM
from relpos.ranges import Count, Natural


@dataclass(frozen=True)
class Removal:
    """Loss at masked tokens, the order gap and the distance of the outputs: intact, without positions, with TISA from regression
    and from random values, with F̂_P itself; and with TISA's parameters alone trained for some steps.

    Args:
        functions: values of S.
        source: of F̂_P, see `relpos.analysis.profiles.Choices`.
        seeds: random starts.
        texts: held-out texts, of `length` tokens besides [CLS] and [SEP].
        head_texts: of the same length, on which a head is trained where the network has none.
        layers: the network ends after so many layers; null: after all.
        steps: in which TISA alone is trained, from regression and from random values, with the largest S.
    """

    functions: Sequence[Count] = (1, 3, 5)
    source: Literal["embeddings", "stream"] = "embeddings"
    seeds: Count = 3
    texts: Count = 64
    length: Count = 126
    head_texts: Count = 1024
    layers: Count | None = None
    steps: Natural = 0

    def __call__(self, subjects: Sequence[Subject]) -> Iterator[Drawing]:
        for subject in subjects:
            yield self._of(subject)

    def _of(self, subject: Subject) -> Drawing:
        model, layers = subject.model, self.layers
        if layers is not None:
            model = first_layers(subject.encoder, layers)
        if not isinstance(model, MaskedLM):
            if subject.training_texts is None:
                raise RelposError(
                    f"{subject.name}: it has no masked-language-modelling head, and there is no text to train one: text=FILE"
                )
            model = train_head(encoder_of(model), subject.training_texts(self.head_texts, self.length))
        texts = subject.some_texts(self.texts, self.length)
        measure = Recovery(
            model, texts, advance=lambda variant: print(f"{subject.name}: {_said(variant)}", file=sys.stderr, flush=True)
        )
        choices = Choices(source=self.source)
        for functions in self.functions:
            measure.measure(f"TISA from regression, S = {functions}", measure.regression(functions, choices))
        largest = max(self.functions)
        for seed in range(self.seeds):
            measure.measure(f"TISA at random, S = {largest}, seed {seed}", measure.random(largest, seed))
        measure.measure("Toeplitz part of F_P", measure.unfitted(choices, toeplitz=True))
        measure.measure("F_P", measure.unfitted(choices, toeplitz=False))
        if self.steps and subject.training_texts is not None:
            training = subject.training_texts(self.head_texts, self.length)
            for name, started in (
                ("regression", measure.regression(largest, choices)),
                ("random values", measure.random(largest, 0)),
            ):
                train_tisa(started, training, self.steps)
                measure.measure(f"TISA from {name}, S = {largest}, {self.steps} steps", started)
        rows = [
            {
                "network": v.name,
                "loss": v.loss,
                "order_gap": v.gap,
                "output_distance": v.distance,
                "loss_recovered": "" if v.recovered is None else v.recovered,
                "gap_recovered": "" if v.order is None else v.order,
                "output_recovered": "" if v.output is None else v.output,
            }
            for v in measure.variants
        ]
        return Drawing(f"removal-{subject.name}", rows, _figure(subject.name, measure.variants))


def _said(variant: Variant) -> str:
    return f"{variant.name}: loss {variant.loss:.4f}, order gap {variant.gap:.4f}, output distance {variant.distance:.4f}"


def _figure(name: str, variants: Sequence[Variant]) -> Any:
    figure, panels = style.grid(3, 3, 3.2, 0.32 * len(variants))
    for axes, key, title in zip(
        panels, ("loss", "gap", "distance"), ("loss, nats a masked token", "order gap, nats", "distance of outputs"), strict=True
    ):
        values = [getattr(variant, key) for variant in variants]
        axes.barh(
            [variant.name for variant in variants], values, color=[style.COLOURS[0]] * 2 + [style.COLOURS[1]] * (len(values) - 2)
        )
        axes.invert_yaxis()
        axes.set_title(title, fontsize=8)
        spread = max(values) - min(values)
        if key == "loss":
            axes.set_xlim(min(values) - 0.2 * spread, max(values) + 0.1 * spread)
        if axes is not panels[0]:
            axes.set_yticklabels([])
    figure.suptitle(f"{name}: positions removed, TISA instead", fontsize=9)
    return figure

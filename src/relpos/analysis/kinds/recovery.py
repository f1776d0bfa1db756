"""Position embeddings removed, and TISA put in their place (Wennberg & Henter 2021, Section 5, Appendix C)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from relpos import style
from relpos.analysis.frozen_head import train_head
from relpos.analysis.kinds.subject import Drawing, Subject
from relpos.analysis.profiles import Choices, profiles
from relpos.analysis.recovery import Recovery, Variant
from relpos.analysis.replacement import toeplitz_parts, train_tisa, with_fitted_tisa, with_matrices, with_random_tisa
from relpos.errors import RelposError, say
from relpos.model.encoder import encoder_of
from relpos.model.heads import MaskedLM
from relpos.model.surgery import first_layers
from relpos.ranges import Count, Natural


@dataclass(frozen=True)
class Removal:
    """Loss at masked tokens, order gap and distance of the outputs of several networks: intact, without positions, with TISA from
    regression and from random values, with F̂_P itself; and with only TISA's parameters trained for some steps.

    Args:
        functions: values of S.
        source: of F̂_P, see `relpos.analysis.profiles.Choices`.
        seeds: random starts.
        texts: held-out texts, of `length` tokens besides [CLS] and [SEP].
        head_texts: of the same length, on which a head is trained where the network has none.
        layers: the network ends after this many layers; null: it keeps all.
        steps: for which TISA alone is trained, from regression and from random values, with the largest S; 0: not at all.
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
            # A head was trained on the outputs of all layers: one for these is trained below.
            model = first_layers(subject.encoder, layers)
        if not isinstance(model, MaskedLM):
            if subject.training_texts is None:
                raise RelposError(
                    f"{subject.name}: it has no masked-language-modelling head, and there is no text to train one: text=FILE"
                )
            model = train_head(encoder_of(model), subject.training_texts(self.head_texts, self.length))
        if model.encoder.causal:
            raise RelposError(f"{subject.name}: a causal network has no masked tokens, whose loss `removal` measures")
        texts = subject.some_texts(self.texts, self.length)
        measure = Recovery(model, texts, advance=lambda variant: say(f"{subject.name}: {_said(variant)}"))
        choices = Choices(source=self.source)
        matrices = [
            profiles(model.encoder, layer, texts.ids.shape[1] + 2, choices, texts.with_edges[:64])
            for layer in range(model.encoder.shape.layers)
        ]
        for functions in self.functions:
            measure.measure(f"TISA from regression, S = {functions}", with_fitted_tisa(model, matrices, functions))
        # What random parameters and training can do is asked once, where they have most freedom.
        largest = max(self.functions)
        for seed in range(self.seeds):
            measure.measure(f"TISA at random, S = {largest}, seed {seed}", with_random_tisa(model, largest, seed))
        measure.measure("Toeplitz part of F_P", with_matrices(model, toeplitz_parts(matrices)))
        measure.measure("F_P", with_matrices(model, matrices))
        if self.steps and subject.training_texts is not None:
            training = subject.training_texts(self.head_texts, self.length)
            for name, started in (
                ("regression", with_fitted_tisa(model, matrices, largest)),
                ("random values", with_random_tisa(model, largest, 0)),
            ):
                train_tisa(started, training, self.steps)
                measure.measure(f"TISA from {name}, S = {largest}, {self.steps} steps", started)
        return Drawing(f"removal-{subject.name}", [_row(v) for v in measure.variants], _figure(subject.name, measure.variants))


def _row(variant: Variant) -> dict[str, Any]:
    low, high = variant.interval or (None, None)
    values = {
        "network": variant.name,
        "loss": variant.loss,
        "order_gap": variant.gap,
        "output_distance": variant.distance,
        "cls_distance": variant.cls_distance,
        "loss_recovered": variant.recovered,
        "loss_recovered_low": low,
        "loss_recovered_high": high,
        "gap_recovered": variant.order,
        "output_recovered": variant.output,
    }
    return {key: "" if value is None else value for key, value in values.items()}


def _said(variant: Variant) -> str:
    text = f"{variant.name}: loss {variant.loss:.4f}, order gap {variant.gap:.4f}, output distance {variant.distance:.4f}"
    text += f" ({variant.cls_distance:.4f} at [CLS])"
    if variant.recovered is not None:
        text += f"; {variant.recovered:.1%} of the loss regained"
    if variant.interval is not None:
        text += " (95 % interval over texts {:.1%} to {:.1%})".format(*variant.interval)
    return text


def _figure(name: str, variants: Sequence[Variant]) -> Any:
    figure, panels = style.grid(4, 4, 3.0, 0.32 * len(variants))
    names = [variant.name for variant in variants]
    for axes, key, title in zip(
        panels,
        ("loss", "gap", "distance"),
        ("loss, nats per masked token", "order gap, nats", "distance of outputs (ring: at [CLS])"),
        strict=False,
    ):
        values = [getattr(variant, key) for variant in variants]
        axes.scatter(values, range(len(values)), s=16, color=[style.COLOURS[0]] * 2 + [style.COLOURS[1]] * (len(values) - 2))
        if key == "distance":
            at_cls = [variant.cls_distance for variant in variants]
            axes.scatter(at_cls, range(len(variants)), s=20, facecolors="none", edgecolors="0.35", linewidths=0.9)
        axes.set_title(title, fontsize=8)
        axes.margins(x=0.1)
        axes.locator_params(axis="x", nbins=5)
        axes.grid(axis="y", color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
    _regained(panels[3], variants)
    for axes in panels:
        axes.set_ylim(len(variants) - 0.4, -0.6)
    for number, axes in enumerate(panels):
        axes.set_yticks(range(len(variants)), [""] * len(variants) if number else names)
    figure.suptitle(f"{name}: positions removed, TISA instead", fontsize=9)
    return figure


def _regained(axes: Any, variants: Sequence[Variant]) -> None:
    """The fraction of the loss that each regains, with their intervals; dotted lines mark nothing and all."""
    for place, variant in enumerate(variants):
        if variant.recovered is not None:
            axes.plot(variant.recovered, place, "o", color=style.COLOURS[1], markersize=4)
        if variant.interval is not None:
            axes.plot(variant.interval, (place, place), "-", color=style.COLOURS[1], linewidth=1.2)
    for bound in (0, 1):
        axes.axvline(bound, color="0.4", linestyle=":", linewidth=0.8)
    axes.set_title("fraction of the loss regained", fontsize=8)

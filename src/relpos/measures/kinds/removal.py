"""Position embeddings removed, and TISA put in their place (Wennberg & Henter 2021, Section 5, Appendix C)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relpos import style
from relpos.errors import RelposError, say
from relpos.measures.measure import Drawing, Measure, NothingToMeasure, Results
from relpos.measures.sample import Sample
from relpos.ranges import Count

if TYPE_CHECKING:
    from relpos.model.heads import MaskedLM

PANELS = {
    "loss": "loss, nats per masked token",
    "order_gap": "order gap, nats",
    "output_distance": "distance of outputs (ring: at [CLS])",
    "loss_recovered": "fraction of the loss regained",
}


@dataclass(frozen=True)
class Removal(Measure):
    """Loss at masked tokens, order gap and distance of the outputs of several networks: intact, without positions, with TISA from
    regression and from random values, and with F̂_P itself.

    Args:
        functions: values of S.
        seeds: random starts.
        texts: held-out texts, of `length` tokens besides [CLS] and [SEP].
        head_texts: of the same length, on which a head is trained where the network has none.
    """

    functions: Sequence[Count] = (1, 3, 5)
    seeds: Count = 3
    texts: Count = 64
    length: Count = 126
    head_texts: Count = 1024

    by_name = True

    def measure(self, sample: Sample) -> Results:
        """`removal`: of each network a row with its loss, order gap and distances, and what it regains of each, see
        `relpos.analysis.removal.compared`."""
        from relpos.analysis.removal import HELDOUT_SEED, compared, masked_texts, variants

        model, texts = self._with_head(sample), sample.texts(self.texts, self.length)
        held_out = [masked_texts(texts, sample.tokenizer, HELDOUT_SEED, words) for words in (None, sample.words)]
        rows = []
        for row in compared(variants(model, texts.shape[1] + 2, self.functions, self.seeds), *held_out):
            say(f"{sample.network.name}: {row['network']}: loss {row['loss']:.4f}")
            rows.append(row)
        return {"removal": rows}

    def _with_head(self, sample: Sample) -> MaskedLM:
        from relpos.analysis.removal import train_head
        from relpos.model.encoder import encoder_of
        from relpos.model.heads import MaskedLM

        model = sample.any_model
        if not isinstance(model, MaskedLM):
            try:
                texts = sample.texts(self.head_texts, self.length, "train")
                model = train_head(encoder_of(model), texts, sample.tokenizer)
            except NothingToMeasure as error:
                raise NothingToMeasure(f"{error} (a head that predicts words is trained on it: this network has none)") from error
        if model.encoder.causal:
            raise RelposError(f"{sample.network.name}: a causal network has no masked tokens, whose loss `removal` measures")
        return model

    def drawn(self, name: str, results: Results) -> Iterator[Drawing]:
        rows = results["removal"]
        yield Drawing(f"removal-{name}", rows, _figure(name, rows))


def _figure(name: str, rows: Sequence[Results]) -> Any:
    figure, panels = style.grid(4, 4, 3.0, 0.32 * len(rows))
    for axes, (key, title) in zip(panels, PANELS.items(), strict=True):
        axes.set_title(title, fontsize=8)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_yticks(range(len(rows)), [""] * len(rows) if key != "loss" else [row["network"] for row in rows])
        if key == "loss_recovered":
            continue
        axes.scatter(
            [row[key] for row in rows], range(len(rows)), s=16, color=[style.COLOURS[0]] * 2 + [style.COLOURS[1]] * (len(rows) - 2)
        )
        if key == "output_distance":
            at_cls = [row["cls_distance"] for row in rows]
            axes.scatter(at_cls, range(len(rows)), s=20, facecolors="none", edgecolors="0.35", linewidths=0.9)
        axes.margins(x=0.1)
        axes.locator_params(axis="x", nbins=5)
        axes.grid(axis="y", color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
    # What each regains, with its interval; dotted lines mark nothing and all.
    for place, row in enumerate(rows):
        if row["loss_recovered"] is not None:
            panels[3].plot(row["loss_recovered"], place, "o", color=style.COLOURS[1], markersize=4)
        if row["loss_recovered_low"] is not None:
            ends = row["loss_recovered_low"], row["loss_recovered_high"]
            panels[3].plot(ends, (place, place), "-", color=style.COLOURS[1], linewidth=1.2)
    for bound in (0, 1):
        panels[3].axvline(bound, color="0.4", linestyle=":", linewidth=0.8)
    figure.suptitle(f"{name}: positions removed, TISA instead", fontsize=9)
    return figure

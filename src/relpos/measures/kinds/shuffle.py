"""By how much the held-out loss rises when the words of each sentence are put in random order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from relpos import style
from relpos.analysis.shuffle_gap import ALL, gaps, shuffled
from relpos.measures.measure import Drawing, Figure, Measure, Measured, MeasuredColumn, by_example
from relpos.measures.sample import Sample
from relpos.ranges import Count
from relpos.readers import Plain

LOSS = "heldout_loss"


@dataclass(frozen=True)
class Shuffle(Measure):
    """Loss of shuffled minus loss of ordered text, in nats per predicted token, see
    `relpos.analysis.shuffle_gap`."""

    examples: Count = 1_000

    place = 1
    columns = (
        MeasuredColumn(LOSS, "held-out loss", snapshots_only=True),
        MeasuredColumn("shuffle_gap", "shuffle gap"),
    )
    note = (
        "Shuffle gap: nats that the held-out loss rises when the words of each sentence are put in "
        "random order (0 = order is not noticed)."
    )
    details = ("by_example",)

    def measure(self, sample: Sample) -> Plain:
        """`shuffle_gap` {"2": nats, …, "all": nats}, `shuffle_gap_intervals`, `heldout_loss`,
        `examples`; and `by_example`, of each held-out example its predicted tokens, their loss in
        nats, and by how much shuffling all words raises it."""
        examples = sample.heldout(self.examples)
        changes = shuffled(sample.words)
        with sample.bar("shuffled text", len(examples) * (1 + len(changes))) as advance:
            gap = gaps(sample.model, examples, changes, advance)
        return {
            "shuffle_gap": gap.gaps,
            "shuffle_gap_intervals": gap.intervals,
            LOSS: gap.loss,
            "examples": len(examples),
            "by_example": by_example(
                examples,
                gap.predicted,
                loss=gap.losses,
                all=gap.differences[ALL],
            ),
        }

    def figure(self, column: str, results: Plain) -> Figure | None:
        if column not in results:
            return None
        details = results.get("by_example", {})
        if column == LOSS:
            return Figure.of_examples(results[LOSS], None, details, "loss")
        ends = tuple(results["shuffle_gap_intervals"][ALL])
        return Figure.of_examples(results["shuffle_gap"][ALL], ends, details, ALL)

    def draw(self, networks: Sequence[Measured]) -> Iterator[Drawing]:
        """The gap by window, with intervals where a line is a single network's."""
        measured = [network for network in networks if "shuffle_gap" in network.results]
        if not measured:
            return
        figure, axes = style.panel()
        windows = list(measured[0].results["shuffle_gap"])
        # By place and not to scale: `all` has no number.
        places = range(len(windows))
        for number, name in enumerate(dict.fromkeys(network.name for network in measured)):
            seeds = [network.results for network in measured if network.name == name]
            look = style.look(number)
            gaps = [list(seed["shuffle_gap"].values()) for seed in seeds]
            axes.plot(places, np.mean(gaps, 0), marker=".", label=name, **look)
            if len(seeds) == 1:
                intervals = seeds[0]["shuffle_gap_intervals"].values()
                style.band(axes, places, intervals, look["color"])
        axes.set_xticks(places, windows)
        axes.set(xlabel="words permuted within windows of", ylabel="shuffle gap, nats per token")
        style.legend(figure)
        yield Drawing("shuffle_gap", figure=figure)

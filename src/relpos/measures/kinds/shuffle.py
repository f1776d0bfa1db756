"""By how much the held-out loss rises when the words of each sentence are put in random order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from relpos import style
from relpos.analysis.shuffle_gap import ALL, gaps, shuffled
from relpos.measures.measure import (
    Drawing,
    Figure,
    Measure,
    Measured,
    MeasuredColumn,
    Results,
    by_example,
)
from relpos.measures.sample import Sample
from relpos.ranges import Count

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
        "random order (0 = order is not "
        "noticed)."
    )
    details = ("by_example",)

    def measure(self, sample: Sample) -> Results:
        """`shuffle_gap` {"2": nats, …, "all": nats}, `shuffle_gap_intervals`, `heldout_loss`,
        `examples`; and `by_example`, of each held-out example its predicted tokens, their loss in
        nats, and by how much shuffling all words raises it."""
        examples, changes = sample.heldout(self.examples), shuffled(sample.words)
        with sample.bar("shuffled text", len(examples) * (1 + len(changes))) as advance:
            gap = gaps(sample.model, examples, changes, advance)
        return {
            "shuffle_gap": gap.gaps,
            "shuffle_gap_intervals": gap.intervals,
            LOSS: gap.loss,
            "examples": len(examples),
            "by_example": by_example(
                examples, gap.predicted, loss=gap.losses, all=gap.differences[ALL]
            ),
        }

    def figure(self, column: str, results: Results) -> Figure | None:
        by_example = results.get("by_example", {})
        value, key = results.get(LOSS), "loss"
        if column != LOSS:
            value, key = results.get("shuffle_gap", {}).get("all"), "all"
        if value is None:
            return None
        ends = None
        if column != LOSS:
            ends = results["shuffle_gap_intervals"]["all"]
        if key in by_example:
            return Figure.of_examples(value, ends, by_example, key)
        return Figure(value, ends)

    def draw(self, networks: Sequence[Measured]) -> Iterator[Drawing]:
        """The gap by window, with intervals where a line is a single network's."""
        lines: dict[str, list[Measured]] = {}
        for network in networks:
            lines.setdefault(network.name, []).append(network)
        for name in list(lines):
            if any("shuffle_gap" not in seed.results for seed in lines[name]):
                del lines[name]
        if lines:
            yield Drawing("shuffle_gap", figure=_gaps(lines))


def _gaps(lines: dict[str, list[Measured]]) -> Any:
    figure, axes = style.panel()
    windows = list(next(iter(lines.values()))[0].results["shuffle_gap"])
    for number, (name, seeds) in enumerate(lines.items()):
        look, places = style.look(number), range(len(windows))
        means = [
            sum(seed.results["shuffle_gap"][window] for seed in seeds) / len(seeds)
            for window in windows
        ]
        axes.plot(places, means, marker=".", label=name, **look)
        if len(seeds) == 1:
            intervals = seeds[0].results["shuffle_gap_intervals"]
            style.band(axes, places, [intervals[window] for window in windows], look["color"])
    # By place and not to scale: `all` has no number.
    axes.set_xticks(range(len(windows)), windows)
    axes.set(xlabel="words permuted within windows of", ylabel="shuffle gap, nats per token")
    style.legend(figure)
    return figure

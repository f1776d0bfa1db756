"""By how much the held-out loss rises when the words of each sentence are put in random order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from relpos import style
from relpos.analysis.shuffle_gap import ALL, gaps, shuffled
from relpos.measures.measure import Drawing, Figure, Measure, Measured, MeasuredColumn, Results, by_example
from relpos.measures.sample import Sample
from relpos.ranges import Count

LOSS = "heldout_loss"


@dataclass(frozen=True)
class Shuffle(Measure):
    """Loss of shuffled minus loss of ordered text, in nats per predicted token, see `relpos.analysis.shuffle_gap`."""

    examples: Count = 1_000

    place = 1
    columns = (
        MeasuredColumn(LOSS, "held-out loss", snapshots_only=True),
        MeasuredColumn("shuffle_gap", "shuffle gap"),
    )
    note = (
        "Shuffle gap: nats that the held-out loss rises when the words of each sentence are put in random order (0 = order is not "
        "noticed)."
    )
    details = ("by_example",)

    def measure(self, sample: Sample) -> Results:
        """`shuffle_gap` {"2": nats, …, "all": nats}, `shuffle_gap_intervals`, `heldout_loss`, `examples`; and `by_example`, of each
        held-out example its predicted tokens, their loss in nats, and by how much shuffling all words raises it."""
        examples, changes = sample.heldout(self.examples), shuffled(sample.words)
        with sample.bar("shuffled text", len(examples) * (1 + len(changes))) as advance:
            gap = gaps(sample.model, examples, changes, advance)
        return {
            "shuffle_gap": gap.gaps,
            "shuffle_gap_intervals": gap.intervals,
            LOSS: gap.loss,
            "examples": len(examples),
            "by_example": by_example(examples, gap.predicted, loss=gap.losses, all=gap.differences[ALL]),
        }

    def figure(self, column: str, results: Results) -> Figure | None:
        gaps, kept = results.get("shuffle_gap", {}), results.get("by_example", {})
        value, key = (results.get(LOSS), "loss") if column == LOSS else (gaps.get("all"), "all")
        if value is None:
            return None
        # By example there may be the gap alone, or nothing.
        ends = None if column == LOSS else results["shuffle_gap_intervals"]["all"]
        return Figure.of_examples(value, ends, kept, key) if key in kept else Figure(value, ends)

    def draw(self, networks: Sequence[Measured]) -> Iterator[Drawing]:
        """The gap by window, with intervals where a line is a single network's."""
        lines: dict[str, list[Measured]] = {}
        for network in networks:
            lines.setdefault(network.name, []).append(network)
        if gaps := {name: seeds for name, seeds in lines.items() if all("shuffle_gap" in seed.results for seed in seeds)}:
            yield Drawing("shuffle_gap", figure=_gaps(gaps))


def _gaps(lines: dict[str, list[Measured]]) -> Any:
    figure, axes = style.panel()
    windows = list(next(iter(lines.values()))[0].results["shuffle_gap"])
    for number, (name, seeds) in enumerate(lines.items()):
        look, places = style.look(number), range(len(windows))
        means = [sum(seed.results["shuffle_gap"][window] for seed in seeds) / len(seeds) for window in windows]
        axes.plot(places, means, marker=".", label=name, **look)
        if len(seeds) == 1:
            intervals = seeds[0].results["shuffle_gap_intervals"]
            style.band(axes, places, [intervals[window] for window in windows], look["color"])
    # By place and not to scale: `all` has no number.
    axes.set_xticks(range(len(windows)), windows)
    axes.set(xlabel="words permuted within windows of", ylabel="shuffle gap, nats per token")
    style.legend(figure)
    return figure

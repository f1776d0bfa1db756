"""By how much the held-out loss rises when the words of each sentence are put in random order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from relpos import style
from relpos.measures.measure import Drawing, Figure, Measure, Measured, MeasuredColumn, Results, by_example
from relpos.measures.sample import Sample
from relpos.ranges import Count
from relpos.runs.shelf import END

LOSS = "heldout_loss"
Curve = dict[int, tuple[float | None, float | None]]
"""Per cent of the steps → shuffle gap over all words in nats, per cent of same-word pairs right; None where not measured."""


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
        from relpos.analysis.shuffle_gap import ALL, gaps, shuffled

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
        if column == LOSS and LOSS in results:
            kept = results.get("by_example", {})
            # Results of older code have no losses by example.
            return Figure.of_examples(results[LOSS], None, kept, "loss") if "loss" in kept else Figure(results[LOSS])
        if "shuffle_gap" not in results:
            return None
        return Figure.of_examples(
            results["shuffle_gap"]["all"], results["shuffle_gap_intervals"]["all"], results["by_example"], "all"
        )

    def draw(self, networks: Sequence[Measured]) -> Iterator[Drawing]:
        """The gap by window, with intervals where a line is a single network's; and where there are snapshots the course of the gap
        and of the same-word pairs over the training."""
        lines: dict[str, list[Measured]] = {}
        for network in networks:
            lines.setdefault(network.name, []).append(network)
        if gaps := {name: seeds for name, seeds in lines.items() if all("shuffle_gap" in seed.results for seed in seeds)}:
            yield Drawing("shuffle_gap", figure=_gaps(gaps))
        if any(network.course for network in networks):
            yield Drawing("snapshots", figure=_courses({name: curve(seeds) for name, seeds in lines.items()}))

    def tokens(self, toy: bool, length: int) -> float:
        from relpos.data.shuffle import WINDOWS

        return float(self.examples * length * (1 + len(WINDOWS)))

    def said(self, results: Results) -> list[str]:
        return [f"shuffle gap {results['shuffle_gap']['all']:.3f} nats"] if "shuffle_gap" in results else []


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


def curve(seeds: Sequence[Measured]) -> Curve:
    """Means over the pre-trainings that have a snapshot: another one of the row may have kept other snapshots."""
    networks = [{**seed.course, END: seed.results} for seed in seeds]
    means: Curve = {}
    for percent in sorted({percent for of_seed in networks for percent in of_seed}):
        points = [of_seed[percent] for of_seed in networks if percent in of_seed]
        gaps = [point["shuffle_gap"]["all"] for point in points if "shuffle_gap" in point]
        right = [point["pairs"]["same_words"]["accuracy"] for point in points if "pairs" in point]
        right = [accuracy for accuracy in right if accuracy is not None]
        means[percent] = (sum(gaps) / len(gaps) if gaps else None, sum(right) / len(right) if right else None)
    return means


def _courses(lines: dict[str, Curve]) -> Any:
    figure, axes = style.panel()
    pairs = axes.twinx()
    for number, (name, course) in enumerate(lines.items()):
        gaps = [(percent, gap) for percent, (gap, _) in course.items() if gap is not None]
        right = [(percent, accuracy) for percent, (_, accuracy) in course.items() if accuracy is not None]
        look = style.look(number)
        if gaps:
            axes.plot(*zip(*gaps, strict=True), marker=".", label=name, **look)
        if right:
            pairs.plot(*zip(*right, strict=True), marker=".", label=None if gaps else name, **look | {"linestyle": ":"})
    axes.set(xlabel="per cent of the steps", ylabel="shuffle gap, all words, nats per token (line)")
    pairs.set(ylabel="same-word pairs right, per cent (dots)", ylim=(0, 100))
    style.legend(figure)
    return figure

"""The held-out loss of a network by the length of its input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos import style
from relpos.errors import RelposError, say
from relpos.files import digest
from relpos.measures.kept import kept, measured
from relpos.measures.measure import Drawing, Measure, Measured, Results
from relpos.measures.sample import Sample
from relpos.ranges import Count, Length
from relpos.readers import read_json
from relpos.runs.networks import of_run
from relpos.runs.shelf import END

if TYPE_CHECKING:
    from relpos.data.heldout_windows import MaskedText
    from relpos.model.heads import MaskedLM

TOKENS = 100_000
SHOWN = ("loss", "perplexity", "accuracy", "predicted", "refused")
ByLength = dict[int, float | None]
"""Tokens → loss; None where the position scheme refuses such inputs."""


@dataclass(frozen=True)
class Lengths(Measure):
    """The loss on the same text under the same masks, cut to windows of each length.

    Args:
        lengths: of the inputs, in tokens.
        amount: about how many tokens of held-out text are used.
    """

    lengths: Sequence[Length] = (32, 64, 128, 256, 512)
    amount: Count = TOKENS

    by_name = True

    def meaning(self, toy: bool) -> dict[str, Any]:
        # Sorted: who asks for the same lengths in another order shares the file.
        return {"lengths": sorted(self.lengths), "tokens": self.amount}

    def measure(self, sample: Sample) -> Results:
        """`lengths` {"32": {loss, perplexity, accuracy, predicted}, …}, or {"512": {refused: why}} where the position scheme cannot
        serve the length; and `trained`, the length of the training's examples.

        Raises:
            NothingToMeasure: held-out text is not known, or the network fills in answers.
            RelposError: no held-out document is as long as the longest input.
        """
        from relpos.data.heldout_windows import heldout_texts
        from relpos.data.objective import masked, next_tokens

        if not self.lengths:
            raise RelposError("lengths=[]: at least one is needed")
        sample.refuse_answers()
        # From documents that fill the longest input, so that all lengths are measured on the same tokens.
        objective = next_tokens if sample.model.encoder.causal else masked
        texts = heldout_texts(sample.store, max(self.lengths), self.amount, objective)
        at = {str(n): loss_by_length(sample.model, texts, n, sample.network.precision) for n in sorted(self.lengths)}
        return {"lengths": at, "trained": sample.network.length}

    def draw(self, networks: Sequence[Measured]) -> Iterator[Drawing]:
        """Loss against length. A cross ends the line of a scheme that refuses longer sequences; vertical lines mark the trained
        lengths."""
        figure, axes = style.panel()
        trained = {network.results["trained"] for network in networks}
        lines = {network.name: network.results["lengths"] for network in networks}
        # A length that the scheme refuses has no loss, and no point.
        points = {name: [(int(n), at["loss"]) for n, at in line.items() if "loss" in at] for name, line in lines.items()}
        style.logarithmic(axes, {n for line in points.values() for n, _ in line} | trained, base=2)
        for number, (name, line) in enumerate((name, line) for name, line in points.items() if line):
            look = style.look(number)
            axes.plot(*zip(*line, strict=True), marker=".", label=name, **look)
            if len(line) < len(lines[name]):
                axes.plot(*line[-1], "x", color=look["color"], markersize=9)
        for n in trained:
            axes.axvline(n, color="0.6", linestyle=(0, (4, 4)), linewidth=0.8, zorder=0)
        label = "length in tokens (vertical line: trained at; cross: no longer sequences)"
        axes.set(xlabel=label, ylabel="held-out loss, nats per token")
        style.legend(figure)
        rows = [
            {"network": name, "length": int(n)} | {key: at.get(key, "") for key in SHOWN}
            for name, line in lines.items()
            for n, at in line.items()
        ]
        yield Drawing("lengths", rows, figure)


def loss_by_length(model: MaskedLM, texts: list[MaskedText], length: int, precision: str) -> dict[str, Any]:
    """{loss, perplexity, accuracy, predicted} on inputs of a length, or {refused: why} where the scheme cannot serve it."""
    import torch

    from relpos.data.heldout_windows import heldout_windows
    from relpos.model.precision import autocast
    from relpos.train.prefetch import move

    try:
        # A table of positions has no rows for longer inputs, which is a result and no error.
        model.encoder.position.check_length(length)
    except RelposError as error:
        return {"refused": str(error)}
    device = next(model.parameters()).device
    model.eval()
    loss, predicted, correct = 0.0, 0, 0
    # Sums over all tokens, divided once: a mean of batch means would weigh the tokens of short batches more.
    for batch in heldout_windows(texts, length):
        batch = move(batch, device)
        with torch.no_grad(), autocast(precision, device):
            sums = model.loss_sum(batch.input_ids, batch.labels, batch.attention_mask)
        loss, predicted, correct = loss + float(sums[0]), predicted + int(sums[1]), correct + int(sums[2])
    mean = loss / predicted
    return {"loss": mean, "perplexity": math.exp(mean), "accuracy": correct / predicted, "predicted": predicted}


def losses(run: Path, lengths: Sequence[int]) -> ByLength:
    """The losses of a finished pre-training, measured once."""
    # What tables kept before `Lengths` was a measure: tokens → loss.
    with suppress(RelposError):
        known: ByLength = read_json(run / f"lengths-{digest([sorted(lengths), TOKENS])}.json", ByLength)
        return known
    return _losses(measured(Sample(of_run(run)), [Lengths(lengths)]))


def kept_losses(run: Path) -> ByLength:
    """All losses that are kept in a pre-training's folder; a damaged file is named on stderr and left out."""
    known: ByLength = {}
    for path in sorted(run.glob("lengths-*.json")):
        try:
            known |= read_json(path, ByLength)
        except RelposError:
            say(f"relpos: damaged results {path}: delete the file to measure anew")
    for entry in kept(run, "lengths"):
        known |= _losses(entry.results) if entry.share == END else {}
    return known


def _losses(results: Results) -> ByLength:
    return {int(length): scores.get("loss") for length, scores in results["lengths"].items()}

"""Held-out losses of several runs on the same examples under the same masks, and their differences with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relpos.errors import RelposError
from relpos.measures.measure import Figure
from relpos.measures.sample import fills_answers
from relpos.results.gain import over_texts
from relpos.results.statistics import Difference, paired
from relpos.runs.networks import resolve
from relpos.runs.run import Run
from relpos.tables.named_runs import by_seed, text_of
from relpos.tables.plan import PlannedRow

SHARED = ("packing", "length")
"""Dials of a pre-training that decide, together with its text, what a held-out example is."""


@dataclass(frozen=True)
class PairedLoss:
    """A subject's held-out loss, compared with the first subject's.

    Args:
        name: of the subject.
        loss: nats per predicted token, the mean over its pre-trainings.
        examples: held-out examples that the loss is over.
        difference: to the first subject's; None for the first one itself.
        over: what the interval is over: `documents` or `seeds`.
    """

    name: str
    loss: float
    examples: int
    difference: Difference | None = None
    over: str = "documents"


def why_not(subjects: Sequence[PlannedRow]) -> str | None:
    """Why losses per token cannot be paired; None where they can."""
    runs = [run for subject in subjects for run in subject.pretrainings]
    # Another tokenizer cuts text into other tokens: nats per token would count other things.
    if len({text_of(run) for run in runs}) > 1:
        return "they were trained on different text or tokenizers, whose losses per token are not of one kind"
    for key in SHARED:
        if len({run.meaning[key] for run in runs}) > 1:
            return f"their held-out examples differ in {key}"
    if len({fills_answers(run.meaning) for run in runs}) > 1:
        return "some fill in answers and some do not, so that other tokens are predicted"
    return None


def paired_losses(
    subjects: Sequence[PlannedRow], examples: int, advance: Callable[[int], object] = lambda _: None
) -> list[PairedLoss]:
    """The losses of the subjects on at most `examples` held-out examples, each with its difference to the first subject's.

    If two subjects have two or more pre-training seeds in common, their difference is tested over seeds (Student's paired test),
    else over held-out documents: then it says how these two networks differ, and nothing about other seeds.

    `advance` is called with the number of examples in each portion done.
    """
    losses = [{seed: losses_of(run, examples, advance) for seed, run in by_seed(subject).items()} for subject in subjects]
    first = losses[0]
    result = []
    for subject, of_subject in zip(subjects, losses, strict=True):
        some, mean = next(iter(of_subject.values())), float(np.mean([of_seed.value for of_seed in of_subject.values()]))
        seeds = sorted(of_subject.keys() & first.keys())
        difference, over = None, "documents"
        # Seeds before examples: what differs from seed to seed is part of the question, if there is a way to know it.
        if of_subject is not first and len(seeds) > 1:
            difference, over = paired([of_subject[seed].value for seed in seeds], [first[seed].value for seed in seeds]), "seeds"
        elif of_subject is not first:
            difference = over_texts([some], [next(iter(first.values()))])
        result.append(PairedLoss(subject.name, mean, some.examples, difference, over))
    return result


def losses_of(run: Run, examples: int, advance: Callable[[int], object] = lambda _: None) -> Figure:
    """The loss of a network on its held-out text, by example, in float32, under the masks that every run is scored with: BERT's, or
    the answers where it was trained to fill in these.

    Raises:
        RelposError: its token store is no longer there.
    """
    from relpos.analysis.shuffle_gap import heldout_losses
    from relpos.data.objective import answered, masked
    from relpos.data.store import Store

    folder = Path(run.record["inputs"]["store"])
    if not (folder / "record.json").is_file():
        raise RelposError(f"{run.name}: its text {folder} is no longer there")
    # The run's own dials decide what an example is; `why_not` has seen that all subjects agree.
    store = Store(folder)
    heldout = store.examples("heldout", run.meaning["packing"], run.meaning["length"], examples)
    objective = answered if fills_answers(run.meaning) else masked
    summed, predicted = heldout_losses(resolve(run.path).masked_lm(), heldout, advance, objective)
    parts = np.stack([summed, predicted])
    return Figure(float(summed.sum() / predicted.sum()), parts=parts, documents=heldout.documents().tolist())

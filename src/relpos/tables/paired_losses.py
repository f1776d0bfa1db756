"""Held-out losses of several runs on the same examples under the same masks, and their differences with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relpos.errors import RelposError
from relpos.measures.sample import fills_answers
from relpos.results.statistics import Difference, clustered, paired
from relpos.runs.run import Run
from relpos.tables.named_runs import by_seed, text_of
from relpos.tables.plan import PlannedRow

Floats = npt.NDArray[np.float64]
SHARED = ("packing", "length")
"""Dials of a pre-training that decide, together with its text, what a held-out example is."""


@dataclass(frozen=True)
class Losses:
    """One network's losses: `summed` (examples,), in nats, over the `predicted` (examples,) masked tokens of each example, each of
    the `documents` (examples,) with its number."""

    summed: Floats
    predicted: Floats
    documents: Floats

    @property
    def mean(self) -> float:
        """Nats per predicted token."""
        return float(self.summed.sum() / self.predicted.sum())


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

    Args:
        subjects: two or more, for which `why_not` returns None.
        examples: held-out examples, at most.
        advance: called with the number of examples in each portion done.
    """
    losses = [{seed: losses_of(run, examples, advance) for seed, run in by_seed(subject).items()} for subject in subjects]
    first = losses[0]
    result = []
    for subject, of_subject in zip(subjects, losses, strict=True):
        mean = float(np.mean([of_seed.mean for of_seed in of_subject.values()]))
        seeds = sorted(of_subject.keys() & first.keys())
        difference, over = None, "documents"
        # Seeds before examples: what differs from seed to seed is part of the question, if there is a way to know it.
        if of_subject is not first and len(seeds) > 1:
            difference, over = paired([of_subject[seed].mean for seed in seeds], [first[seed].mean for seed in seeds]), "seeds"
        elif of_subject is not first:
            difference = over_documents(next(iter(of_subject.values())), next(iter(first.values())))
        result.append(PairedLoss(subject.name, mean, len(next(iter(of_subject.values())).predicted), difference, over))
    return result


def over_documents(second: Losses, first: Losses) -> Difference:
    """`second − first` in nats per predicted token, with its standard error over held-out documents, see `clustered`.

    >>> first = Losses(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]), np.arange(3.0))
    >>> over_documents(Losses(first.summed + first.predicted, first.predicted, first.documents), first).value
    1.0
    """
    return clustered(second.summed - first.summed, first.predicted, first.documents.tolist())


def losses_of(run: Run, examples: int, advance: Callable[[int], object] = lambda _: None) -> Losses:
    """The losses of a network on its held-out text, in float32, under the masks that every run is scored with: BERT's, or the
    answers where it was trained to fill in these.

    Raises:
        RelposError: its token store is no longer there.
    """
    from pathlib import Path

    from relpos.analysis.shuffle_gap import heldout_losses
    from relpos.data.objective import answered, masked
    from relpos.data.store import Store
    from relpos.runs.networks import resolve

    folder = Path(run.record["inputs"]["store"])
    if not (folder / "record.json").is_file():
        raise RelposError(f"{run.name}: its text {folder} is no longer there")
    # The run's own dials decide what an example is; `why_not` has seen that all subjects agree.
    store = Store(folder)
    heldout = store.examples("heldout", run.meaning["packing"], run.meaning["length"], examples)
    objective = answered if fills_answers(run.meaning) else masked
    losses = heldout_losses(resolve(run.path).masked_lm(), heldout, advance, objective)
    return Losses(*losses, heldout.documents().astype(np.float64))

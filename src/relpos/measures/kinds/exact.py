"""How many answers of a length generalisation task a network fills in without a mistake, at trained lengths and at longer ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from relpos.analysis.likelihood import BATCH_TOKENS, exact
from relpos.analysis.resampling import ratio_interval
from relpos.data.examples import Examples, Pairs
from relpos.data.length_tasks import LengthTask
from relpos.data.objective import IGNORED, answered
from relpos.data.shuffle import masked_batches
from relpos.data.toy.events import Chance
from relpos.errors import RelposError
from relpos.measures.measure import Figure, Floats, Measure, MeasuredColumn, NothingToMeasure, Results
from relpos.measures.sample import Sample, data_of
from relpos.model.heads import MaskedLM
from relpos.ranges import Count
from relpos.runs.networks import Network
from relpos.trust import instantiate

EXACT, TOKENS, FOUND = "exact", "tokens", "length_task"
BY_EXAMPLE = f"{FOUND}_by_example"
RANGES = ("trained", "longer")
"""Questions of 1 to L symbols and of L + 1 to 2 L; L is the longest in training."""


@dataclass(frozen=True)
class Exact(Measure):
    """Per cent of answers and of their tokens. No question stands in the text of the training."""

    examples: Count = 1_000

    place = 7
    columns = tuple(
        MeasuredColumn(f"{quantity}_{lengths}", f"{quantity}, {lengths}", "accuracy", bounds=(0.0, 100.0))
        for lengths in RANGES
        for quantity in (EXACT, TOKENS)
    )
    note = (
        "Answers to questions that are not in the text of the training, all of their tokens masked: per cent of answers without a "
        "mistake and of right tokens, for questions of 1 to L symbols (trained lengths) and of L + 1 to 2 L (longer lengths); L is "
        "the longest in training."
    )
    details = (BY_EXAMPLE,)

    def suits(self, network: Network) -> bool:
        return _task_of(network) is not None

    def measure(self, sample: Sample) -> Results:
        """`length_task` {"trained": {"exact", "exact_interval", "tokens", "tokens_interval", "by_length" {length: exact}},
        "longer" likewise, where the position scheme serves such lengths}; and `length_task_by_example`, of each the length of its
        question, its tokens, and how many of them are right."""
        task = _task_of(sample.network)
        if task is None:
            raise NothingToMeasure(f"{sample.network.name}: it was not trained on a length generalisation task")
        if sample.model.encoder.causal:
            raise NothingToMeasure(f"{sample.network.name}: a causal network has no masks")
        by_example: dict[str, dict[str, list[int]]] = {}
        with sample.bar("answers", 2 * self.examples) as advance:
            for number, name in enumerate(RANGES):
                lengths = range(number * task.longest + 1, (number + 1) * task.longest + 1)
                asked, examples = _examples(sample, task, lengths, self.examples)
                try:
                    sample.model.encoder.position.check_length(examples.length)
                # A scheme that refuses longer inputs has no column for them, which is no error.
                except RelposError:
                    continue
                right, tokens = _right_tokens(sample.model, examples, advance)
                by_example[name] = {"length": asked, "tokens": tokens.astype(int).tolist(), "right": right.astype(int).tolist()}
        return {FOUND: {name: _summary(found) for name, found in by_example.items()}, BY_EXAMPLE: by_example}

    def figure(self, column: str, results: Results) -> Figure | None:
        quantity, _, lengths = column.partition("_")
        if lengths not in results.get(FOUND, {}):
            return None
        found, parts = results[FOUND][lengths], _parts(results[BY_EXAMPLE][lengths])[quantity]
        low, high = found[f"{quantity}_interval"]
        return Figure(found[quantity], (low, high), parts.shape[1], parts)


def _task_of(network: Network) -> LengthTask | None:
    """The task that a network was trained on."""
    data = data_of(network.store)
    # By name, because making a source of another kind may read its files.
    if not str(data.get("_target_", "")).startswith(LengthTask.__module__):
        return None
    task: LengthTask = instantiate(data, "data")
    return task


def _examples(sample: Sample, task: LengthTask, lengths: range, count: int) -> tuple[list[int], Examples]:
    """The same for all networks of a task: the lengths of the questions, and the examples, none of them cut."""
    # Drawn by the task and not by the network, so that networks of one task answer the same questions.
    chance = Chance(task.seed, task.name, "test", lengths)
    drawn = [task.draw(chance, "test", lengths) for _ in range(count)]
    ids = sample.tokenizer.encode([" ".join(part) for example in drawn for part in example])
    # Question and answer take turns, so that every second end is that of an example.
    ends = np.cumsum([0, *map(len, ids)])
    # Three more for [CLS] and two [SEP], so that no answer is cut.
    longest = int((ends[2::2] - ends[:-2:2]).max()) + 3
    documents = np.array([0]), np.array([len(ids)])
    return [len(question) for question, _ in drawn], Pairs(
        np.concatenate(ids), ends, *documents, longest, marks=sample.tokenizer.marks
    )


def _right_tokens(model: MaskedLM, examples: Examples, advance: Callable[[int], object]) -> tuple[Floats, Floats]:
    """(examples,) how many tokens of each answer have the highest score at their place where all of them are masked, and how many
    tokens it has."""
    right, tokens = np.zeros(len(examples)), np.zeros(len(examples))
    device, vocabulary = next(model.parameters()).device, model.encoder.embedding.words.num_embeddings
    with exact(model):
        for batch, numbers in masked_batches(examples, vocabulary, BATCH_TOKENS, answered):
            filled = model(batch.input_ids.to(device), batch.attention_mask.to(device)).argmax(2).cpu()
            right[numbers] = (filled == batch.labels).sum(1).numpy()
            tokens[numbers] = (batch.labels != IGNORED).sum(1).numpy()
            advance(len(numbers))
    return right, tokens


def _parts(found: dict[str, list[int]]) -> dict[str, Floats]:
    """Per cents as sums over sums: (2, examples)."""
    right, tokens = (np.array(found[key], np.float64) for key in ("right", "tokens"))
    # As a numerator and a denominator for each example: an interval over networks draws examples anew.
    return {EXACT: np.stack([100.0 * (right == tokens), np.ones(len(right))]), TOKENS: np.stack([100.0 * right, tokens])}


def _summary(found: dict[str, list[int]]) -> dict[str, Any]:
    lengths, parts = np.array(found["length"]), _parts(found)
    summary: dict[str, Any] = {}
    for quantity, (numerators, denominators) in parts.items():
        summary[quantity] = float(numerators.sum() / denominators.sum())
        summary[f"{quantity}_interval"] = ratio_interval(numerators, denominators)
    return summary | {"by_length": {str(n): round(float(parts[EXACT][0][lengths == n].mean()), 2) for n in np.unique(lengths)}}

"""How many floating-point operations a run needs, from its configuration alone.

An estimate: only matrix products are counted, and every sequence as if it had the full length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

from relpos.errors import RelposError
from relpos.runs.networks import described_by
from relpos.runs.run import Run

MASKED = 0.15
"""Share of the tokens that BERT's masks choose."""
EXAMPLES = 256
"""Examples whose mean length stands for that of all."""
ADAMW = "adamw"
"""The optimiser of a recipe that names none."""
MARKS = 3
"""[CLS] and two [SEP]."""


class Rate(NamedTuple):
    """Operations per second, and the runs that it holds for.

    Args:
        precision: fp32 or bf16.
        cost: operations per token.
        value: operations per second; of finished runs as `flops` counts them, otherwise as `flops_done` does.
        tokens: per step; None: any number.
        task: of fine-tunings.
        optimizer: Muon's updates are matrix products, which no count of passes contains.
    """

    precision: str
    cost: float
    value: float
    tokens: float | None = None
    task: str | None = None
    optimizer: str = ADAMW


def flops(run: Run) -> float:
    """Operations of a training run: three times its forward passes; 0 for a stage that does not train."""
    return sum(tokens * cost for tokens, cost in _parts(run))


def flops_per_token(run: Run) -> float:
    """Operations of a training run for each token that it reads; 0 for a stage that does not train."""
    tokens = sum(tokens for tokens, _ in _parts(run))
    return flops(run) / tokens if tokens else 0.0


def origin_of(run: Run) -> Run:
    """The pre-training, or the network that the user named, that a run starts from, at any depth."""
    while "start" in run.inputs:
        run = run.inputs["start"]
    return run


def vocabulary_of(tokenizer: Run) -> int:
    """Pieces of a tokenizer: as many as it was asked for; of the generated language about as many as that has words."""
    asked = int(tokenizer.config["vocabulary"])
    return min(asked, _toy_words()) if "toy" in tokenizer.inputs else asked


@cache
def _toy_words() -> int:
    from relpos.data.toy.corpus import word_list

    return len(word_list())


def flops_done(run: Run) -> tuple[float, float, float]:
    """Operations that a training run really does, those per token, and tokens per step: examples are shorter than `length`.

    The generated language also has fewer pieces than its tokenizer is asked for.
    """
    length, parts = mean_length(run), _parts(run, vocabulary_of)
    tokens = sum(tokens for tokens, _ in parts)
    whole = sum(tokens * cost for tokens, cost in parts)
    return whole * length / run.config["length"], whole / tokens, run.config["batch"] * length


def _parts(
    run: Run, vocabulary_of: Callable[[Run], int] = lambda tokenizer: tokenizer.config["vocabulary"]
) -> list[tuple[float, float]]:
    """(tokens, operations for each) of the stages of a training run: one, or two where short text comes first."""
    if run.stage not in ("pretrain", "finetune"):
        return []
    origin = origin_of(run)
    size = described_by(origin)["size"] if origin.stage == "given" else origin.config["size"]
    vocabulary = vocabulary_of(run.inputs["tokenizer"]) if run.stage == "pretrain" else 0
    head = predicted(size, run.config.get("recipe", {}))
    steps, first = steps_of(run), run.config.get("first") or {"share": 0}
    stages = [(1 - first["share"], run.config), (first["share"], first)]
    return [
        # Three: the backward pass has two matrix products for each one of the forward pass.
        (share * steps * stage["batch"] * stage["length"], 3.0 * forward(size, stage["length"], vocabulary, head))
        for share, stage in stages
        if share
    ]


def predicted(size: Mapping[str, Any], recipe: Mapping[str, Any]) -> float:
    """Share of the tokens that a pre-training predicts: all in a causal network, otherwise the mean rate of the masks."""
    if size.get("attention") == "causal":
        return 1.0
    masking = recipe.get("masking", "bert")
    rate = {"bert": MASKED, "diffusion": 0.5, "answer": 0.5}[masking] if isinstance(masking, str) else masking
    # Annealed linearly over all steps, so that the mean of both ends is the mean rate.
    return fmean(rate) if isinstance(rate, list) else float(rate)


def optimizer_of(recipe: Mapping[str, Any]) -> str:
    """The optimiser of a recipe, or of a meaning's, which leaves out AdamW."""
    return str(recipe.get("optimizer", ADAMW))


def forward(size: dict[str, Any], length: int, vocabulary: int = 0, predicted: float = MASKED) -> float:
    """Operations of a forward pass, a token: 2 (4h² + 2hf) + 4nh a layer, the embedding's projection, the head at predicted tokens.
    A gated feed-forward network has 3hf in place of 2hf."""
    hidden, embedding, maps = size["hidden"], size["embedding"], 3 if size.get("glu") else 2
    layer = 2 * (4 * hidden**2 + maps * hidden * size["ffn"]) + 4 * length * hidden
    head = predicted * 2 * (hidden * embedding + embedding * vocabulary) if vocabulary else 0.0
    return float(size["layers"] * layer + (2 * embedding * hidden if embedding != hidden else 0) + head)


def steps_of(run: Run) -> float:
    """Steps of a training run; where they are counted in epochs, those of the official rows."""
    if run.config.get("steps"):
        return float(run.config["steps"])
    task, batch = run.config["task"], run.config["batch"]
    epochs = run.config["recipe"].get("epochs") or task["steps"] / -(-task["rows"] // task["batch"])
    return float(epochs * -(-task["rows"] // batch))


def costs(run: Run) -> dict[str, float]:
    """The operations of a run, as its record has them."""
    return {"flops": flops(run), "flops_per_token": flops_per_token(run)}


def mean_length(run: Run) -> float:
    """Tokens of a training run's examples, on average: of its store or its task's dev set; before these exist, `length`.

    Words and punctuation are counted in place of tokens where no store exists yet: for the generated language, and for tasks.
    """
    store, length = run.inputs.get("store"), float(run.config["length"])
    if store is not None and store.state == "finished":
        import torch

        from relpos.data.store import Store

        examples = Store(store.path).examples("train", run.config["packing"], run.config["length"], EXAMPLES)
        return float(examples.lengths(torch.arange(len(examples))).float().mean())
    texts = _task_texts(run) if run.stage == "finetune" else []
    # A stand-in of `relpos.tables.estimate` has no store.
    if not texts and "toy" in (store or run.inputs.get("tokenizer", run)).inputs:
        texts = _toy_texts()
    return fmean(min(length, words(text) + MARKS) for text in texts) if texts else length


@cache
def _toy_texts() -> list[str]:
    from relpos.data.toy.chance import Chance
    from relpos.data.toy.corpus import pair

    return [" ".join([*first, ".", *second, "."]) for first, second in (pair(Chance(0, number)) for number in range(EXAMPLES))]


def _task_texts(run: Run) -> list[str]:
    """Some rows of a fine-tuning's dev set; empty where it cannot be read from this machine's files."""
    from relpos.data.glue import read
    from relpos.data.glue_hub import HubGlue
    from relpos.runs.plan import task_files
    from relpos.trust import instantiate

    try:
        task, location = instantiate(run.config["task"], "task"), task_files(run)
        if isinstance(location, HubGlue):  # a plan must not wait for the network
            return []
        rows = read(location, task, next(iter(task.dev.values())))
    except (RelposError, KeyError):  # the files are named once the task is trained on
        return []
    columns = [column[:EXAMPLES] for column in (rows.sentence_a, rows.sentence_b) if column]
    return [" ".join(sentences) for sentences in zip(*columns, strict=True)]


def words(text: str) -> int:
    """Words and punctuation marks, which stand for tokens where there is no tokenizer yet."""
    return len(re.findall(r"\w+|[^\w\s]", text))

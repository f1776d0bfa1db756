"""How many floating-point operations a run needs, from its configuration alone.

An estimate: only matrix products are counted, and every sequence as if it had the full length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relpos.runs.networks import described_by
from relpos.runs.run import Run

MASKED = 0.15
"""Share of the tokens that BERT's masks choose."""


def flops(run: Run) -> float:
    """Operations of a training run: three times its forward passes; 0 for a stage that does not train."""
    return sum(tokens * cost for tokens, cost in _parts(run))


def flops_per_token(run: Run) -> float:
    """Operations of a training run for each token that it reads; 0 for a stage that does not train."""
    tokens = sum(tokens for tokens, _ in _parts(run))
    return flops(run) / tokens if tokens else 0.0


def _parts(run: Run) -> list[tuple[float, float]]:
    """(tokens, operations for each) of the stages of a training run: one, or two where short text comes first."""
    if run.stage not in ("pretrain", "finetune"):
        return []
    origin = run
    while "start" in origin.inputs:  # the pre-training, or the network that the user named
        origin = origin.inputs["start"]
    size = described_by(origin)["size"] if origin.stage == "given" else origin.config["size"]
    vocabulary = run.inputs["tokenizer"].config["vocabulary"] if run.stage == "pretrain" else 0
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
    from relpos.data.objective import trained_for

    return trained_for({"size": size, "recipe": recipe}).expected


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

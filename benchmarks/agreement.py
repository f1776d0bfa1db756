"""Losses of a short pre-training with each way of computing it, beside the same one with another
seed of dropout.

    python benchmarks/agreement.py [--steps 300] [--precision fp32|bf16] [--threads N]

`size=tiny`, `position=composite`, the generated language, batches of 32; initial weights, order and
masks of words are the same in all. The kernels agree where their curves lie nearer to each other
than to one that differs in the seed of dropout alone. Writes benchmarks/results/agreement.json and
.md, in bf16 agreement_bf16. Expect four minutes on two quiet cores.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from _report import machine, write_results

import relpos
from relpos.config.compose import resolved
from relpos.counter import fold
from relpos.data.steps import Steps
from relpos.data.store import Store
from relpos.model.architecture import Architecture
from relpos.model.attention import kernels_used
from relpos.model.build import build
from relpos.model.dropout import seed_dropout
from relpos.model.kernels import Name
from relpos.model.precision import autocast
from relpos.ranges import parsed
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.train.optim import Recipe

BATCH, LAST = 32, 50
WAYS: dict[str, tuple[Name, int]] = {
    "compiled": ("compiled", 0),
    "fused": ("fused", 0),
    "eager": ("eager", 0),
    "fused, second seed of dropout": ("fused", 1),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    store = Store(execute(plan(relpos.compose("data"))).path)
    curves = {way: losses(store, *how, asked.precision, asked.steps) for way, how in WAYS.items()}
    rows = []
    for way, curve in curves.items():
        apart = (curve - curves["eager"]).abs()
        rows.append(
            {
                "way": way,
                f"loss, mean of the last {LAST} steps": f"{float(curve[-LAST:].mean()):.4f}",
                "mean distance from eager": f"{float(apart.mean()):.1e}",
                "largest": f"{float(apart.max()):.1e}",
            }
        )
        print(rows[-1])
    name = "agreement" if asked.precision == "fp32" else f"agreement_{asked.precision}"
    facts = {
        "machine": machine(),
        "precision": asked.precision,
        "steps": asked.steps,
        "batch": BATCH,
        "size": "tiny",
    }
    write_results(name, {**facts, "rows": rows})


def losses(
    store: Store, kernel: Name, dropout_seed: int, precision: str, count: int
) -> torch.Tensor:
    """(steps,) the loss of each step."""
    torch.manual_seed(0)
    cfg = relpos.compose(
        "params", ["size=tiny", "position=composite", f"vocabulary={store.vocabulary}"]
    )
    model = build(parsed(Architecture, resolved(cfg)), kernel).train()
    recipe = Recipe(lr=1e-3, warmup=30)
    optimizer = recipe.optimizer_of(model)
    schedule = recipe.scheduler(optimizer, count)
    steps = Steps(store.examples("train", "pair", 128), 0, BATCH, BATCH, store.vocabulary)
    curve = []
    for number in range(count):
        step = steps.step(number)
        total = 0.0
        for part in step.microbatches:
            seed_dropout(model, fold(dropout_seed, number), part.keys)
            with autocast(precision, "cpu"):
                loss = (
                    model.loss_sum(part.input_ids, part.labels, part.attention_mask)[0]
                    / step.chosen
                )
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        curve.append(total)
    assert kernels_used(model) == [kernel]
    return torch.tensor(curve)


if __name__ == "__main__":
    main()

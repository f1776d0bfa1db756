"""Fine-tuning steps, 32 rows, and the scoring of a dev set: ours beside the best of Hugging Face,
interleaved in one run on CPU.

    python benchmarks/finetuning.py [GLUE] [--tokenizer FOLDER] [--tasks sst2 mnli] [--steps 12]
    [--precisions bf16 fp32] [--sizes small "4 × 128"] [--threads N]

GLUE is a folder of the tasks (`$RELPOS_DATA/glue` by default). The rows of a step are drawn at
random and are the same for all. Ours cuts them, sorted by length, into forward passes, as
`relpos finetune` does. Hugging Face pads them to the longest of them or takes passes of rows of
like length; with eager or SDPA attention; in bf16 by autocast or as `model.to(torch.bfloat16)`,
whose weights and AdamW are bfloat16, too. Its fastest way in the first steps, which do not count, is its
best. A step is forward, backward, clipping and AdamW. Scoring is the forward passes over 512 rows,
sorted by length, 64 a pass. BERT-small has all threads, the network of 4 layers of 128 one. Ratios
are taken within a step. The tokenizer is that of the newest store below $RELPOS_RUNS. Writes
benchmarks/results/finetuning.json and .md. Expect five minutes on two quiet cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
from _contestants import hugging_face_config, keep_freed_memory, network
from _report import machine, write_results

import relpos
from relpos.data.glue import TsvGlue, read
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.task_batches import (
    Encoded,
    TuningSteps,
    collate,
    encode,
    epoch_batches,
    evaluation_batches,
)
from relpos.data.tasks import Task
from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError
from relpos.model.build import classifier_on
from relpos.model.dropout import seed_dropout
from relpos.model.precision import autocast, casting_once
from relpos.train.finetune import outputs
from relpos.trust import instantiate

BATCH, LENGTH, ROWS, SCORED = 32, 128, 4000, 512
TRIED = 3  # steps of every way of Hugging Face
SIZES = {
    "small": (["size=small"], "small", {}),
    "4 × 128": (
        ["size=mini", "size.hidden=128", "size.ffn=512"],
        "mini",
        {"hidden_size": 128, "intermediate_size": 512},
    ),
}
Batches = list[dict[str, Tensor]]


@dataclass
class Side:
    """A network to be raced.

    Args:
        step: takes an update on some passes.
        score: computes the outputs for rows.
        padding: whether rows of like length stand in a pass; None: all are padded to the longest.
    """

    step: Callable[[Batches], None]
    score: Callable[[Encoded], Any]
    padding: bool | None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "glue", nargs="?", default=str(Path(os.environ.get("RELPOS_DATA", ".")) / "glue")
    )
    parser.add_argument(
        "--tokenizer",
        help="a folder with tokenizer.model; by default the newest below $RELPOS_RUNS",
    )
    parser.add_argument("--tasks", nargs="+", default=["sst2", "mnli"])
    parser.add_argument("--precisions", nargs="+", default=["bf16", "fp32"])
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    if not Path(asked.glue).is_dir():
        return print(
            f"benchmarks/finetuning.py is left out: {asked.glue} is no folder; "
            f"RELPOS_DATA names the one with glue/"
        )
    keep_freed_memory()
    tokenizer = load_tokenizer(Path(asked.tokenizer) if asked.tokenizer else newest_tokenizer())
    rows = []
    for name in asked.tasks:
        task: Task = instantiate(relpos.compose("finetune", [f"task={name}"]).task, "task")
        data = encoded(task, Path(asked.glue), tokenizer)
        for size in asked.sizes:
            torch.set_num_threads(asked.threads if size == "small" else 1)
            for precision in asked.precisions:
                about = {"task": name, "network": size, "precision": precision}
                rows.append(about | race(task, data, tokenizer.size, size, precision, asked.steps))
                print(rows[-1], flush=True)
    about = machine() | {"load": round(os.getloadavg()[0], 1), "threads": asked.threads}
    content = {"machine": about, "batch": BATCH, "steps": asked.steps, "rows scored": SCORED}
    write_results("finetuning", content | {"rows": rows})


def newest_tokenizer() -> Path:
    files = (Path(os.environ.get("RELPOS_RUNS", "runs")) / "tokenizer").glob("*/tokenizer.model")
    folders = sorted((path.parent for path in files), key=lambda path: path.stat().st_mtime)
    if not folders:
        raise SystemExit(
            "benchmarks/finetuning.py needs --tokenizer FOLDER: there is none below $RELPOS_RUNS"
        )
    return folders[-1]


def encoded(task: Task, folder: Path, tokenizer: Tokenizer) -> Encoded:
    """The first rows of the task's training split."""
    try:
        rows = read(TsvGlue(folder), task, "train")
    except RelposError as error:
        raise SystemExit(f"benchmarks/finetuning.py: {error}") from None
    columns = ("sentence_a", "sentence_b", "labels")
    first = {name: value[:ROWS] for name in columns if (value := getattr(rows, name)) is not None}
    return encode(replace(rows, **first), tokenizer, LENGTH)


def race(
    task: Task, data: Encoded, vocabulary: int, size: str, precision: str, steps: int
) -> dict[str, Any]:
    """All take the same rows in turn, Hugging Face after a few steps in its fastest way alone."""
    torch.manual_seed(0)
    sides = {"ours": ours(task, vocabulary, size, precision)}
    for kind in ("eager", "sdpa"):
        for cast in (False, True) if precision == "bf16" else (False,):
            side = hugging_face(task, vocabulary, size, kind, precision, cast)
            name = f"{kind}, {precision}" + (" weights" if cast else "")
            sides |= {name: side, f"{name}, by length": replace(side, padding=True)}
    batches = epoch_batches(len(data), 0, 0, BATCH)
    work, by_length = (
        TuningSteps(data, 0, BATCH, TRIED + steps, microbatch=16, padding=padding)
        for padding in (False, True)
    )
    times: dict[str, list[float]] = {side: [] for side in sides}
    best = ""
    for number, (full, sorted_step) in enumerate(zip(work, by_length, strict=True)):
        if number == TRIED:
            # the first step of each prepares
            best = min(list(sides)[1:], key=lambda name: min(times[name][1:]))
            sides, times = {name: sides[name] for name in ("ours", best)}, {"ours": [], best: []}
        passes = {
            None: [collate(data, batches[number])],
            False: full.microbatches,
            True: sorted_step.microbatches,
        }
        for name in list(sides) if number % 2 else list(sides)[::-1]:
            times[name].append(seconds(partial(sides[name].step, passes[sides[name].padding])))
    dev = replace(data, ids=data.ids[:SCORED], seconds=data.seconds[:SCORED], labels=None)
    scored: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(1 + max(3, steps // 3)):
        for name in list(sides) if number % 2 else list(sides)[::-1]:
            spent = seconds(partial(sides[name].score, dev))
            scored[name] += [spent] if number else []
    tokens = statistics.mean(
        float(data.lengths[rows].float().mean()) for rows in batches[TRIED : TRIED + steps]
    )
    own = statistics.median(times["ours"])
    return {
        "best of Hugging Face": best,
        "steps, times as fast": ratio(times[best], times["ours"]),
        "scoring, times as fast": ratio(scored[best], scored["ours"]),
        "examples/s, ours": f"{BATCH / own:.1f}",
        "examples/s, Hugging Face": f"{BATCH / statistics.median(times[best]):.1f}",
        "scored/s, ours": f"{SCORED / statistics.median(scored['ours']):.0f}",
        "tokens a row": f"{tokens:.0f}",
    }


def seconds(work: Callable[[], Any]) -> float:
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def ratio(theirs: list[float], own: list[float]) -> str:
    ratios = [above / below for above, below in zip(theirs, own, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} – {max(ratios):.2f})"


def ours(task: Task, vocabulary: int, size: str, precision: str) -> Side:
    overrides = [*SIZES[size][0], f"vocabulary={vocabulary}"]
    model = classifier_on(network(*overrides), task.outputs, 0.1).train()
    seeds = iter(range(1 << 30))

    def loss(batch: dict[str, Tensor]) -> Tensor:
        seed_dropout(model, next(seeds), batch["keys"])
        with autocast(precision, "cpu"):
            logits = model(batch["input_ids"], batch["attention_mask"], batch["token_types"])
        return nn.functional.cross_entropy(logits, batch["labels"], reduction="sum")

    def score(rows: Encoded) -> None:
        outputs(model, rows, precision)
        model.train()

    return Side(partial(_step, model, _optimizer(model), loss, precision), score, padding=False)


def hugging_face(
    task: Task, vocabulary: int, size: str, attention: str, precision: str, cast: bool
) -> Side:
    """Args: cast: the whole model is bfloat16."""
    from transformers import BertForSequenceClassification

    _, name, widths = SIZES[size]
    config = hugging_face_config(
        name, attention, vocabulary=vocabulary, num_labels=task.outputs, **widths
    )
    model = BertForSequenceClassification(config).train()
    if cast:
        model = model.to(torch.bfloat16)

    def logits(batch: dict[str, Tensor]) -> Tensor:
        keys = {
            "input_ids": batch["input_ids"],
            "token_type_ids": batch["token_types"],
            "attention_mask": batch["attention_mask"],
        }
        with autocast("fp32" if cast else precision, "cpu"):
            scores: Tensor = model(**keys).logits
        return scores.float()

    def loss(batch: dict[str, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(logits(batch), batch["labels"], reduction="sum")

    @torch.inference_mode()
    def score(rows: Encoded) -> None:
        model.eval()
        for batch in evaluation_batches(rows, 64):
            logits(batch)
        model.train()

    return Side(partial(_step, model, _optimizer(model), loss, "fp32"), score, padding=None)


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[dict[str, Tensor]], Tensor],
    precision: str,
    batches: Batches,
) -> None:
    with casting_once(precision, "cpu"):  # which does nothing for `fp32`
        for batch in batches:
            (loss(batch) / BATCH).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    main()

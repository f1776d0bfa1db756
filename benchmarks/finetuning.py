"""Fine-tuning steps of BERT-small, 32 rows: ours beside Hugging Face with dynamic padding,
interleaved in one run on CPU.

    python benchmarks/finetuning.py GLUE [--tokenizer FOLDER] [--tasks cola rte mnli] [--steps 12]
    [--threads N]

GLUE is a folder of the tasks (`$RELPOS_DATA/glue` by default). The rows of a step are drawn at
random and are the same for both sides. Hugging Face pads them to the longest of them; ours cuts
them, sorted by length, into forward passes, as `relpos finetune` does. A step is forward, backward,
clipping and AdamW; fp32. Ratios are taken within a step. The tokenizer is that of the newest store
below $RELPOS_RUNS. Writes benchmarks/results/finetuning.json and .md. Expect four minutes on two
quiet cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
from _contestants import hugging_face_config, network
from _report import machine, write_results

import relpos
from relpos.data.glue import TsvGlue, read
from relpos.data.task_batches import Encoded, TuningSteps, collate, encode, epoch_batches
from relpos.data.tasks import Task
from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError
from relpos.model.build import classifier_on
from relpos.model.dropout import seed_dropout
from relpos.trust import instantiate

BATCH, LENGTH, ROWS = 32, 128, 4000
Step = Callable[[list[dict[str, Tensor]]], None]


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
    parser.add_argument("--tasks", nargs="+", default=["cola", "rte", "mnli"])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if not Path(asked.glue).is_dir():
        return print(
            f"benchmarks/finetuning.py is left out: {asked.glue} is no folder; "
            f"RELPOS_DATA names the one with glue/"
        )
    tokenizer = Tokenizer.load(Path(asked.tokenizer) if asked.tokenizer else newest_tokenizer())
    rows = []
    for name in asked.tasks:
        task: Task = instantiate(relpos.compose("finetune", [f"task={name}"]).task, "task")
        rows.append(
            {
                "task": name,
                **race(
                    task, encoded(task, Path(asked.glue), tokenizer), tokenizer.size, asked.steps
                ),
            }
        )
        print(rows[-1])
    write_results(
        "finetuning", {"machine": machine(), "batch": BATCH, "steps": asked.steps, "rows": rows}
    )


def newest_tokenizer() -> Path:
    found = (Path(os.environ.get("RELPOS_RUNS", "runs")) / "tokenizer").glob("*/tokenizer.model")
    folders = sorted((path.parent for path in found), key=lambda path: path.stat().st_mtime)
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
    columns = ("sentence_a", "sentence_b", "labels", "indices")
    first = {name: value[:ROWS] for name in columns if (value := getattr(rows, name)) is not None}
    return encode(replace(rows, **first), tokenizer, LENGTH)


def race(task: Task, data: Encoded, vocabulary: int, steps: int) -> dict[str, Any]:
    """Both sides take the same rows in turn; the first step of each does not count."""
    torch.manual_seed(0)
    sides = {"ours": ours(task, vocabulary), "hugging face": hugging_face(task, vocabulary)}
    times: dict[str, list[float]] = {side: [] for side in sides}
    batches = epoch_batches(len(data), 0, 0, BATCH)
    for number, step in zip(
        range(steps + 1), TuningSteps(data, 0, BATCH, steps + 1, microbatch=16), strict=True
    ):
        work = {"ours": step.microbatches, "hugging face": [collate(data, batches[number])]}
        for side in list(sides) if number % 2 else list(sides)[::-1]:
            start = time.perf_counter()
            sides[side](work[side])
            if number:
                times[side].append(time.perf_counter() - start)
    ratios = [
        theirs / own for theirs, own in zip(times["hugging face"], times["ours"], strict=True)
    ]
    tokens = statistics.mean(
        float(data.lengths[rows].float().mean()) for rows in batches[: steps + 1]
    )
    return {
        "speed over Hugging Face": f"{statistics.median(ratios):.2f}",
        "lowest – highest": f"{min(ratios):.2f} – {max(ratios):.2f}",
        "examples/s, ours": f"{BATCH / statistics.median(times['ours']):.1f}",
        "examples/s, Hugging Face": f"{BATCH / statistics.median(times['hugging face']):.1f}",
        "tokens a row": f"{tokens:.0f}",
    }


def ours(task: Task, vocabulary: int) -> Step:
    model = classifier_on(
        network("size=small", f"vocabulary={vocabulary}"), task.outputs, 0.1
    ).train()
    seeds = iter(range(1 << 30))

    def loss(batch: dict[str, Tensor]) -> Tensor:
        seed_dropout(model, next(seeds), batch["keys"])
        logits = model(batch["input_ids"], batch["attention_mask"], batch["token_types"])
        return nn.functional.cross_entropy(logits, batch["labels"], reduction="sum")

    return _step(model, loss)


def hugging_face(task: Task, vocabulary: int) -> Step:
    from transformers import BertForSequenceClassification

    config = hugging_face_config("small", "sdpa", vocabulary=vocabulary, num_labels=task.outputs)
    model = BertForSequenceClassification(config).train()

    def loss(batch: dict[str, Tensor]) -> Tensor:
        keys = {
            "input_ids": batch["input_ids"],
            "token_type_ids": batch["token_types"],
            "attention_mask": batch["attention_mask"],
        }
        return nn.functional.cross_entropy(model(**keys).logits, batch["labels"], reduction="sum")

    return _step(model, loss)


def _step(model: Any, loss: Callable[[dict[str, Tensor]], Tensor]) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(batches: list[dict[str, Tensor]]) -> None:
        for batch in batches:
            (loss(batch) / BATCH).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


if __name__ == "__main__":
    main()

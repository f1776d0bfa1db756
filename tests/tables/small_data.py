"""A corpus and two GLUE tasks that are read in no time, and an experiment on them."""

import json
import random
from pathlib import Path
from typing import Any

import yaml

from relpos.runs.run import Run, within_runs
from relpos.tables.experiment import Experiment, load
from relpos.tables.plan import PlannedRow, plan_table

WORDS = [
    "the",
    "a",
    "big",
    "small",
    "old",
    "red",
    "cat",
    "dog",
    "bird",
    "fish",
    "sees",
    "hears",
    "likes",
    "finds",
    "now",
]


def write_data(folder: Path) -> Path:
    """`folder/corpus` and `folder/glue` with CoLA and RTE."""
    chance = random.Random(0)

    def sentence() -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(3, 8))) + " ."

    (folder / "corpus").mkdir(parents=True)
    for number in range(20):
        lines = "".join(f"{sentence()}\n" for _ in range(20))
        (folder / "corpus" / f"{number:02}.txt").write_text(lines, encoding="utf-8")
    for task in ("CoLA", "RTE"):
        (folder / "glue" / task).mkdir(parents=True)
        for split, count in {"train": 64, "dev": 20}.items():
            rows = [_row(task, number, sentence) for number in range(count)]
            head = [] if task == "CoLA" else ["index\tsentence1\tsentence2\tlabel"]
            (folder / "glue" / task / f"{split}.tsv").write_text(
                "\n".join([*head, *rows]) + "\n", encoding="utf-8"
            )
    return folder


def _row(task: str, number: int, sentence: Any) -> str:
    if task == "CoLA":
        return f"x\t{number % 2}\t\t{sentence()}"
    return f"{number}\t{sentence()}\t{sentence()}\t{['entailment', 'not_entailment'][number % 2]}"


def write_experiment(folder: Path, **changes: Any) -> Path:
    """`folder/small.yaml`: two rows, two tasks, a few steps."""
    content = {
        "question": "does it run?",
        "base": ["data=files", "size=tiny", "size.hidden=16", "size.embedding=16", "size.ffn=16"],
        "rows": {"none": ["position=none"], "fixed": ["position=fixed", "k=2"]},
        "stages": {
            "pretrain": ["steps=3", "batch=8"],
            "finetune": ["steps=3", "intermediate=none"],
        },
        "tasks": ["cola", "rte"],
        "threads": 1,
    }
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(content | changes, sort_keys=False), encoding="utf-8")
    return path


def small(folder: Path, **changes: Any) -> Experiment:
    """The experiment that `write_experiment` writes."""
    return load(str(write_experiment(folder, **changes)))


def plan_of(folder: Path, **changes: Any) -> list[PlannedRow]:
    """The plan of the experiment that `write_experiment` writes."""
    return plan_table(small(folder, **changes))


def records(root: Path, stage: str) -> list[dict[str, Any]]:
    """The records of a stage."""
    return [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((root / stage).glob("*/record.json"))
    ]


def log(run: Run, losses: dict[int, float]) -> None:
    """Leaves the held-out losses after these steps in the log of a training."""
    run.path.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"step": step, "heldout_loss": losses[step]}) + "\n" for step in losses]
    (run.path / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")


def finish_tuning(run: Run, columns: dict[str, float], examples: int, majority: float = 0.0) -> Run:
    """Leaves the record of a finished fine-tuning with these scores."""
    facts = {"majority": majority, "examples": examples}
    metrics = {name: dict.fromkeys(columns, fact) for name, fact in facts.items()}
    return finish(run, {"columns": columns} | metrics)


def finish(run: Run, metrics: dict[str, Any], **changes: Any) -> Run:
    """Leaves the record of a finished run."""
    run.path.mkdir(parents=True, exist_ok=True)
    inputs = {name: within_runs(needed.path) for name, needed in run.inputs.items()}
    record: dict[str, Any] = {
        "state": "finished",
        "stage": run.stage,
        "identity": run.identity,
        "meaning": run.meaning,
    }
    run.update(**(record | {"inputs": inputs, "metrics": metrics} | changes))
    return run

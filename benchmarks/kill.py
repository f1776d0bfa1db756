"""kill -9 at ten moments of a pre-training and of a fine-tuning run, then the same command: is the
result the same?

    python benchmarks/kill.py            writes benchmarks/results/kill.{json,md}

Moments: three right after the start, four in the middle of writing a checkpoint (its temporary file
exists), three between checkpoints, which in pre-training is during an evaluation, because every
checkpoint falls on one. A run passes when its record shows a start from a step > 0 (or the kill
came before the first checkpoint, and the table says so), its weights equal those of the
uninterrupted run bit for bit, and its log has the same lines but for speeds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from _report import machine, write_results
from safetensors.torch import load_file

COMMON = [
    "position=composite",
    "checkpoint_every=4",
    "log_every=4",
    "speed.threads=1",
    "size.dropout=0.1",
]
STAGES = {
    "pretrain": [*COMMON, "steps=60", "batch=32", "speed.microbatch=16", "evaluations=15"],
    "finetune": [*COMMON, "steps=60", "pretrain.steps=60", "pretrain.batch=32"],
}


def relpos(stage: str, overrides: list[str], root: Path) -> subprocess.Popen[bytes]:
    """The command, as a process of its own."""
    environment = os.environ | {"RELPOS_RUNS": str(root), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "relpos.cli", stage, *overrides],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def finish(stage: str, overrides: list[str], root: Path) -> Path:
    """Runs the command to its end; the folder of its run."""
    out, _ = relpos(stage, overrides, root).communicate()
    return Path(out.decode().splitlines()[-1])


def fresh(prepared: Path, stage: str, parent: Path) -> Path:
    """A folder for runs in which everything before `stage` is there already."""
    root = Path(tempfile.mkdtemp(dir=parent))
    for name in ("toy", "tokenizer", "store", *(["pretrain"] if stage == "finetune" else [])):
        (root / name).symlink_to(prepared / name)
    return root


def moments(stage: str) -> dict[str, Callable[[Path], bool]]:
    """Name → has the moment come? Asked again and again with the folder for runs."""

    def started(root: Path) -> bool:
        return any((root / stage).glob("*/record.json"))

    def writing(number: int) -> Callable[[Path], bool]:
        seen: set[str] = set()

        def now(root: Path) -> bool:
            writing = list((root / stage).glob("*/checkpoint/.writing*"))
            if writing:
                seen.add(
                    str(sorted(path.name for path in (root / stage).glob("*/checkpoint/last-*")))
                )
            return bool(writing) and len(seen) >= number

        return now

    def between(number: int) -> Callable[[Path], bool]:
        seen: set[Path] = set()

        def now(root: Path) -> bool:
            renamed = set((root / stage).glob("*/checkpoint/last-*")) - seen
            seen.update(renamed)
            return bool(renamed) and len(seen) >= number

        return now

    return (
        {f"start + {wait:.1f} s": _later(started, wait) for wait in (0.0, 0.3, 1.0)}
        | {f"writing checkpoint {n}": writing(n) for n in (1, 2, 5, 9)}
        | {f"behind checkpoint {n}": between(n) for n in (2, 6, 11)}
    )


def _later(condition: Callable[[Path], bool], seconds: float) -> Callable[[Path], bool]:
    since: list[float] = []

    def now(root: Path) -> bool:
        if condition(root) and not since:
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] >= seconds

    return now


def log(folder: Path) -> list[dict[str, float]]:
    """The lines of a run's log without speeds."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [
        {key: value for key, value in line.items() if not key.endswith("per_second")}
        for line in lines
    ]


def trial(
    stage: str, name: str, moment: Callable[[Path], bool], root: Path, uninterrupted: Path
) -> dict[str, object]:
    """One kill and what became of it."""
    process = relpos(stage, STAGES[stage], root)
    while process.poll() is None and not moment(root):
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    half = [path.name for path in (root / stage).glob("*/checkpoint/last-*")]
    folder = finish(stage, STAGES[stage], root)
    record = json.loads((folder / "record.json").read_text())
    result, whole = (
        load_file(run / "model" / "model.safetensors") for run in (folder, uninterrupted)
    )
    equal = result.keys() == whole.keys() and all(
        torch.equal(result[key], whole[key]) for key in whole
    )
    from_step = record["starts"][-1]["from_step"]
    about = {
        "stage": stage,
        "killed": name,
        "checkpoint there": bool(half),
        "went on from step": from_step,
    }
    return about | {"weights equal": equal, "log equal": log(folder) == log(uninterrupted)}


def main() -> int:
    """All moments of both stages."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        parent = Path(folder)
        prepared = parent / "prepared"
        for stage, overrides in STAGES.items():
            whole = finish(stage, overrides, prepared)
            for name, moment in moments(stage).items():
                rows.append(trial(stage, name, moment, fresh(prepared, stage, parent), whole))
                print(rows[-1], file=sys.stderr)
    equal = all(row["weights equal"] and row["log equal"] for row in rows)
    passed = equal and all(row["went on from step"] or not row["checkpoint there"] for row in rows)
    write_results("kill", {"machine": machine(), "passed": passed, "rows": rows})
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

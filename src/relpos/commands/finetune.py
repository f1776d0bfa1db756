"""`relpos finetune`: one task, of GLUE or of your own, on top of a pre-training."""

from __future__ import annotations

import sys
from typing import Unpack

from relpos import run
from relpos.config.schema import Finetune
from relpos.runs import Run, plan
from relpos.runs.stages import refuse_absent


def finetune(**config: Unpack[Finetune]) -> str:
    """Executes the run, and before it the runs that it starts from, unless they are finished; returns the path of its folder."""
    planned = plan(config)
    refuse_absent(planned)  # before the announcement below, so that a mistake prints its own line only
    if said := before(planned):
        print(f"relpos: {said}", file=sys.stderr)
    return str(run(config).path)


def before(tuning: Run) -> str | None:
    """Which trainings come before a fine-tuning, and how to leave them out; None if they are finished."""
    parts, ways, start = [], [], tuning.inputs["start"]
    if tuning.state == "finished":
        return None
    if start.stage == "finetune" and start.state != "finished":
        task = start.config["task"]["name"]
        parts.append(f"{_steps(start)}fine-tuning on {task}")
        ways.append(f"intermediate=none leaves {task} out, intermediate.steps=N shortens it")
        start = start.inputs["start"]
    if start.stage == "pretrain" and start.state != "finished":
        parts.insert(0, f"{_steps(start)}pre-training")
        ways.append("network=FOLDER starts from a finished pre-training")
    return f"first {' and '.join(parts)}; {'; '.join(ways)}" if parts else None


def _steps(run: Run) -> str:
    steps = run.config["steps"]
    return "" if steps is None else f"{steps:,} steps of "

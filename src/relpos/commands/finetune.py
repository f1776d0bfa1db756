"""`relpos finetune`: one task, of GLUE or of your own, on top of a pre-training."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from relpos.config.compose import resolved
from relpos.config.schema import PlannedKeys
from relpos.data.own_task import OwnTask
from relpos.errors import plural, say
from relpos.ranges import Arguments, Count
from relpos.readers import Plain
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.runs.run import Run
from relpos.stages.finetune import FinetuneConfig
from relpos.stages.stage import refuse


class Intermediate(TypedDict):
    task: str | None
    steps: Count | None


class FinetuneKeys(PlannedKeys):
    stage: Literal["finetune"]
    pretrain: Annotated[Plain, Arguments("relpos.stages.pretrain:PretrainPhase")]
    intermediate: Intermediate


def finetune(content: Annotated[Plain, Arguments(FinetuneConfig, FinetuneKeys)]) -> str:
    """Executes the run, and before it the unfinished runs from which it starts; returns the path of
    its folder."""
    planned = plan(content)
    # before the announcement below, so that a mistake prints its own line only
    refuse(planned)
    for line in filter(None, [before(planned), *uncounted(content)]):
        say(f"relpos: {line}")
    finished = execute(planned)
    metrics = finished.metrics
    for column, value in finished.record.columns.items():
        constant = metrics["majority"][column]
        rows = metrics["examples"][column]
        say(
            f"relpos: {column} {value:.1f} on {plural(rows, 'dev example')}; the constant answer "
            f"has {constant:.1f}"
        )
    return str(finished.path)


def before(tuning: Run) -> str | None:
    """A line about the trainings before a fine-tuning, and how to leave them out; None if they are
    finished."""
    parts, ways, start = [], [], tuning.inputs["start"]
    if tuning.state == "finished":
        return None
    if start.is_tuning and start.state != "finished":
        task = start.meaning["task"]["name"]
        parts.append(f"{_steps(start)}fine-tuning on {task}")
        ways.append(f"intermediate=none leaves {task} out, intermediate.steps=N shortens it")
        start = start.inputs["start"]
    if start.is_pretraining and start.state != "finished":
        parts.insert(0, f"{_steps(start)}pre-training")
        ways.append("network=FOLDER starts from a finished pre-training")
    return f"first {' and '.join(parts)}; {'; '.join(ways)}" if parts else None


def uncounted(content: Plain) -> list[str]:
    """Lines about keys of a user's own task that the recipe overrules: all at `size=tiny`, the
    learning rate at `size=base`.

    Args:
        content: configuration of the fine-tuning, with its interpolations.
    """
    config = resolved(content)
    task = config["task"]
    if "rows" in task:  # not the user's own
        return []
    recipe = {
        "epochs": ("steps", config["steps"]),
        "batch": ("batch", config["batch"]),
        "lr": ("recipe.lr", config["recipe"]["lr"]),
    }
    lines = []
    for key, (counted, value) in recipe.items():
        # Typed values are no surprise to the user; where nothing is typed, the value is an
        # interpolation.
        is_typed = not isinstance(content.get(counted, ""), str)
        if value is None or is_typed or task[key] in (value, getattr(OwnTask, key)):
            continue
        hint = f"{counted}={task[key]} sets it"
        if key == "epochs":
            hint = "steps=null counts epochs"
        setting = f"{key}: {task[key]} of task {task['name']}"
        lines.append(f"{setting} does not count here: the recipe says {counted}={value}; {hint}")
    return lines


def _steps(run: Run) -> str:
    steps = run.config.steps
    return "" if steps is None else f"{plural(steps, 'step')} of "

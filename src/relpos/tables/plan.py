"""An experiment → its runs. A pure function: composed once per row and stage, then varied by task and seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from omegaconf import DictConfig

from relpos.errors import RelposError
from relpos.runs.config import compose
from relpos.runs.plan import finetune_run, pretrain_run, with_task
from relpos.runs.run import Run
from relpos.tables.experiment import STAGES, Experiment

OF_TASK = ("steps", "batch", "intermediate")
"""Dials that follow the task, unless words set them."""


@dataclass(frozen=True)
class Tuning:
    """One fine-tuning: a task, the seed of the pre-training it starts from, its own seed."""

    task: str
    pretrain_seed: int
    seed: int
    run: Run


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    name: str
    words: list[str]
    pretrainings: list[Run]
    tunings: list[Tuning]


def plan_table(experiment: Experiment, rows: list[str] | None = None, words: Iterable[str] = ()) -> list[Row]:
    """The rows with their runs.

    Args:
        experiment: what the file says.
        rows: names of the rows that are wanted; None: all.
        words: more words, for every row.

    Raises:
        RelposError: a word is wrong; the row is named.
    """
    return [_row(experiment, name, own, list(words)) for name, own in experiment.select(rows).items()]


def _row(experiment: Experiment, name: str, own: list[str], more: list[str]) -> Row:
    words = [*own, *more]
    try:
        first, second = (compose(stage, words_of(stage, experiment, words)) for stage in STAGES)
    except RelposError as error:
        raise RelposError(f"table {experiment.name}, row {name!r}: {error}") from error
    pretrainings, tunings = [], []
    for pretrain_seed in experiment.pretrain_seeds or [first.seed]:
        first.seed = pretrain_seed
        pretraining = _labelled(pretrain_run(first), name)
        pretrainings.append(pretraining)
        found = _tunings(experiment, name, second, words, pretraining)
        tunings += [Tuning(task, pretrain_seed, seed, run) for task, seed, run in found]
    return Row(name, own, pretrainings, tunings)


def _tunings(
    experiment: Experiment, name: str, cfg: DictConfig, words: list[str], pretraining: Run
) -> Iterator[tuple[str, int, Run]]:
    said = {word.partition("=")[0].lstrip("+") for word in words_of("finetune", experiment, words)}
    dials: dict[str, Any] = {key: cfg[key] for key in OF_TASK if key in said}
    for task in experiment.tasks:
        planned = _labelled(finetune_run(with_task(cfg, task, **dials, seed=experiment.seeds[0]), pretraining), name)
        for seed in experiment.seeds:
            yield task, seed, reseeded(planned, seed)


def reseeded(run: Run, seed: int) -> Run:
    """A fine-tuning, and the intermediate one before it, with another seed: what planning anew would give."""
    start = run.inputs["start"]
    inputs = run.inputs | {"start": reseeded(start, seed) if start.stage == "finetune" else start}
    name = f"{run.name.rpartition('-seed')[0]}-seed{seed}"
    meaning, config = run.meaning | {"seed": seed}, run.config | {"seed": seed}
    return replace(run, name=name, meaning=meaning, config=config, inputs=inputs)


def words_of(stage: str, experiment: Experiment, words: Iterable[str]) -> list[str]:
    """The words that reach one stage: of all rows, of the stage, then `words`. Later ones win; prefixes come off."""
    other = next(name for name in STAGES if name != stage)
    every = [*experiment.base, *experiment.stages.get(stage, []), *words]
    return [word.removeprefix(f"{stage}.") for word in every if not word.startswith(f"{other}.")]


def _labelled(run: Run, row: str) -> Run:
    """The row's name, for loggers; no part of the identity."""
    return replace(run, config=run.config | {"row": row})


def runs_of(rows: Iterable[Row]) -> list[Run]:
    """Every run of the rows once, inputs before what needs them: shared inputs, pre-trainings, fine-tunings.

    By depth, so that the longest chains start first; at equal depth what others wait for, then the order of the file.
    """
    depths: dict[str, int] = {}
    found: dict[str, Run] = {}
    needed: set[str] = set()

    def depth(run: Run) -> int:
        if run.identity not in depths:
            depths[run.identity] = 1 + max((depth(other) for other in run.inputs.values()), default=-1)
            needed.update(other.identity for other in run.inputs.values())
        return depths[run.identity]

    def collect(run: Run) -> None:
        for other in run.inputs.values():
            if other.identity not in found:
                collect(other)
        found.setdefault(run.identity, run)

    for row in rows:
        for run in (*row.pretrainings, *(tuning.run for tuning in row.tunings)):
            collect(run)
    return sorted(found.values(), key=lambda run: (depth(run), run.identity not in needed))

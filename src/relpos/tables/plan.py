"""An experiment → its runs, a pure function. Each row and stage is composed once; tasks and seeds are variations of it."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from omegaconf import DictConfig

from relpos.config.compose import check, compose
from relpos.config.given_network import refuse_overrides
from relpos.config.variation import varied
from relpos.errors import RelposError, nearest
from relpos.runs.plan import change_name, finetune_run, given_run, noop_run, pretrain_run, with_task
from relpos.runs.run import Run, closure
from relpos.tables.experiment import STAGES, Experiment

OF_TASK = ("steps", "batch", "intermediate")
"""Dials that the task sets, unless an override does."""
STARTS = ("network", "finetune.network")
"""Keys that name another network than the experiment file for its rows to be fine-tuned from."""
OF_POSITION = ("position", "conv", "k", "outside", "kernels")
"""Keys whose values a fine-tuning takes over from the network that it starts from."""


@dataclass(frozen=True)
class Tuning:
    """One fine-tuning: a task, the seed of the pre-training it starts from, its own seed."""

    task: str
    pretrain_seed: int
    seed: int
    run: Run


@dataclass(frozen=True)
class PlannedRow:
    """One planned row of a table: its runs, finished or not.

    Args:
        name: in the experiment file.
        overrides: the overrides in which the row differs.
        pretrainings: one a pre-training seed.
        tunings: one a task and seed, for every pre-training.
        noops: runs that only sleep, of a table for tests.
        needs: the key that must name the checkpoint to start from, because there is none here; then the row has no runs.
    """

    name: str
    overrides: list[str]
    pretrainings: list[Run]
    tunings: list[Tuning]
    noops: list[Run] = field(default_factory=list)
    needs: str | None = None

    @property
    def runs(self) -> list[Run]:
        """All runs of the row, without their inputs (tokenizer, store)."""
        return [*self.pretrainings, *(tuning.run for tuning in self.tunings), *self.noops]


def plan_table(experiment: Experiment, rows: list[str] | None = None, overrides: Iterable[str] = ()) -> list[PlannedRow]:
    """The rows with their runs.

    Args:
        experiment: what the file says.
        rows: names of the rows that are wanted; None: all.
        overrides: more overrides, for every row.

    Raises:
        RelposError: an override is wrong; the row is named.

    >>> from relpos.tables.experiment import load
    >>> [row] = plan_table(load("demo"), ["fixed"])
    >>> len(row.pretrainings), row.tunings[0].task, row.tunings[0].run.inputs["start"] is row.pretrainings[0]
    (1, 'cola', True)
    """
    templates, overrides = Templates(experiment), list(overrides)
    start = _start_of(experiment, overrides)
    result = []
    with _without_garbage_collection():
        for name, row_overrides in experiment.select(rows).items():
            try:
                if experiment.network is None:
                    result.append(_row(experiment, templates, name, row_overrides, [*row_overrides, *overrides]))
                elif start is None:
                    result.append(PlannedRow(name, row_overrides, [], [], needs="network"))
                else:
                    result.append(_row_on(start, experiment, templates, name, row_overrides, [*row_overrides, *overrides]))
            except RelposError as error:
                raise RelposError(f"table {experiment.name}, row {name!r}: {error}") from error
    return result


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Composing makes very many small objects: with garbage collection, a quarter of the time goes into looking for cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _row(experiment: Experiment, templates: Templates, name: str, row_overrides: list[str], overrides: list[str]) -> PlannedRow:
    """The row of this name; `row_overrides` are its overrides in the file, `overrides` these and those of the command line."""
    if experiment.parameters:
        return PlannedRow(name, row_overrides, [], [])
    if "noop" in experiment.stages:
        first = noop_run(compose("noop", overrides_of("noop", experiment, overrides)))
        return PlannedRow(name, row_overrides, [], [], [_noop_of(first, seed) for seed in experiment.seeds])
    cfg = templates.pretraining(overrides_of("pretrain", experiment, overrides))
    pretrainings, tunings = [], []
    for pretrain_seed in experiment.pretrain_seeds or [cfg.seed]:
        cfg.seed = pretrain_seed
        pretraining = _labelled(pretrain_run(cfg), experiment.name, name)
        pretrainings.append(pretraining)
        for task, template in templates.of(overrides_of("finetune", experiment, overrides), pretraining).items():
            planned = _labelled(moved(template, pretraining), experiment.name, name)
            tunings += [Tuning(task, pretrain_seed, seed, reseeded(planned, seed)) for seed in experiment.seeds]
    return PlannedRow(name, row_overrides, pretrainings, tunings)


def _start_of(experiment: Experiment, overrides: Sequence[str]) -> Run | None:
    """The network that all rows are fine-tuned from; None if there is none, or if the one that the file names is not here.

    Raises:
        RelposError: the one that `overrides` name is not here.
    """
    if experiment.network is None:
        return None
    named = [override.partition("=")[2] for override in overrides if _key(override) in STARTS]
    if named:
        return given_run(named[-1])
    if experiment.network == "???":
        return None
    try:
        return given_run(experiment.network)
    except RelposError:
        return None


def _row_on(
    start: Run, experiment: Experiment, templates: Templates, name: str, row_overrides: list[str], overrides: list[str]
) -> PlannedRow:
    """The row of this name in a table that fine-tunes the network `start`; `row_overrides` and `overrides` as for `_row`."""
    overrides = [override for override in overrides if _key(override) not in STARTS]
    refuse_overrides("finetune", overrides_of("finetune", experiment, overrides), {"network": start.name})
    planned = templates.of(overrides_of("finetune", experiment, [*overrides, "network=given"]), start)
    tunings = [
        Tuning(task, 0, seed, reseeded(_labelled(template, experiment.name, name), seed))
        for task, template in planned.items()
        for seed in experiment.seeds
    ]
    return PlannedRow(name, row_overrides, [], tunings)


class Templates:
    """A cache of what is the same for rows that differ only in position scheme and convolution: the composed configuration of their
    pre-trainings, and the fine-tunings of every task.

    Composing is slow: with this cache a plan of nineteen rows takes half a second instead of ten.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.known: dict[tuple[str, ...], dict[str, Run]] = {}
        self.composed: dict[tuple[str, ...], DictConfig] = {}

    def pretraining(self, overrides: list[str]) -> DictConfig:
        """`compose("pretrain", overrides)`."""
        of_row = [override for override in overrides if _is_of_position(override)]
        key = tuple(override for override in overrides if not _is_of_position(override))
        if key not in self.composed:
            self.composed[key] = compose("pretrain", key)
        cfg = varied(self.composed[key], of_row)
        return compose("pretrain", overrides) if cfg is None else check(cfg, "pretrain", of_row)

    def of(self, overrides: list[str], pretraining: Run) -> dict[str, Run]:
        """Task → a fine-tuning on the pre-training of some row, which `moved` puts on another; the overrides are of the stage."""
        if not self.experiment.tasks:
            return {}
        key = tuple(override for override in overrides if not _is_of_position(override))
        if key not in self.known:
            cfg = compose("finetune", key)
            overridden = {_key(override).split(".")[0] for override in key}
            dials = {name: cfg[name] for name in OF_TASK if name in overridden}
            seed = self.experiment.seeds[0]
            runs = [finetune_run(with_task(cfg, task, **dials, seed=seed), pretraining) for task in self.experiment.tasks]
            names = [run.meaning["task"]["name"] for run in runs]
            if len(set(names)) < len(names):
                raise RelposError(
                    f"tasks: two of them are called {max(names, key=names.count)!r}; name: in a task's file tells them apart"
                )
            self.known[key] = dict(zip(names, runs, strict=True))
        return self.known[key]


def _is_of_position(override: str) -> bool:
    return _key(override).split(".")[0] in OF_POSITION


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")


def moved(run: Run, pretraining: Run) -> Run:
    """The fine-tuning, and the intermediate one before it, on another row's pre-training: equal to one planned for that row."""
    start = run.inputs["start"]
    inputs = run.inputs | {"start": moved(start, pretraining) if start.stage == "finetune" else pretraining}
    shape = pretraining.name.removesuffix(f"-{pretraining.inputs['store'].name}-seed{pretraining.config['seed']}")
    name = f"{run.meaning['task']['name']}-{shape}{change_name(run.meaning)}-seed{run.meaning['seed']}"
    return replace(run, name=name, inputs=inputs)


def reseeded(run: Run, seed: int) -> Run:
    """The fine-tuning, and the intermediate one before it, with another seed: equal to one planned with that seed."""
    start = run.inputs["start"]
    inputs = run.inputs | {"start": reseeded(start, seed) if start.stage == "finetune" else start}
    name = f"{run.name.rpartition('-seed')[0]}-seed{seed}"
    meaning, config = run.meaning | {"seed": seed}, run.config | {"seed": seed}
    return replace(run, name=name, meaning=meaning, config=config, inputs=inputs)


def overrides_of(stage: str, experiment: Experiment, overrides: Iterable[str]) -> list[str]:
    """The overrides that reach one stage, without prefixes: those of all rows, of the stage, then `overrides`; later ones win.

    >>> from pathlib import Path
    >>> table = Experiment("t", Path(), "?", rows={}, tasks=[], base=["size=tiny"], stages={"finetune": ["steps=5"]})
    >>> overrides_of("finetune", table, ["pretrain.steps=9", "finetune.batch=8", "position=fixed"])
    ['size=tiny', 'steps=5', 'batch=8', 'position=fixed']
    """
    other_stages = tuple(f"{name}." for name in STAGES if name != stage)
    every = [*experiment.base, *experiment.stages.get(stage, []), *overrides]
    return [override.removeprefix(f"{stage}.") for override in every if not override.startswith(other_stages)]


def _noop_of(run: Run, seed: int) -> Run:
    name = f"{run.name.rpartition('seed')[0]}seed{seed}"
    return replace(run, name=name, meaning=run.meaning | {"seed": seed}, config=run.config | {"seed": seed})


def _labelled(run: Run, table: str, row: str) -> Run:
    """The run, and the fine-tuning before it, with the names of table and row for loggers; they are not part of the identity."""
    inputs = {name: _labelled(other, table, row) if other.stage == "finetune" else other for name, other in run.inputs.items()}
    return replace(run, config=run.config | {"table": table, "row": row}, inputs=inputs)


def of_stages(runs: list[Run], stages: list[str] | None) -> list[Run]:
    """The runs of these stages, and the runs that they need; None: all. `order`, which measures and makes no runs, is a stage, too.

    Raises:
        RelposError: there is no such stage.
    """
    known = ("toy", "tokenizer", "store", "pretrain", "finetune", "order", "noop")
    for stage in stages or ():
        if stage not in known:
            raise RelposError(f"stages: unknown stage {stage!r}.{nearest(stage, known)}")
    wanted = {run.identity for run in closure([run for run in runs if stages is None or run.stage in stages])}
    return [run for run in runs if run.identity in wanted]


def runs_of(rows: Sequence[PlannedRow]) -> list[Run]:
    """Every run of the rows once, inputs before the runs that need them: shared inputs, pre-trainings, fine-tunings.

    Sorted by depth, so that the longest chains start first; at equal depth, runs that others wait for come first, then the first
    pre-training of every row, the second of every row and so on: a table that is stopped early is a whole one of fewer seeds.
    """
    rounds = {run.identity: number for row in rows for number, run in enumerate(row.pretrainings)}
    depths: dict[str, int] = {}
    needed: set[str] = set()

    def depth(run: Run) -> int:
        if run.identity not in depths:
            depths[run.identity] = 1 + max((depth(other) for other in run.inputs.values()), default=-1)
            needed.update(other.identity for other in run.inputs.values())
        return depths[run.identity]

    runs = closure([run for row in rows for run in row.runs])
    return sorted(runs, key=lambda run: (depth(run), run.identity not in needed, rounds.get(run.identity, 0)))


def needed(runs: list[Run]) -> list[Run]:
    """The runs without inputs that only finished runs read: a missing store is not made again if its pre-trainings are finished.

    Args:
        runs: inputs before the runs that need them.
    """
    kept: list[Run] = []
    wanted: set[str] = set()
    inputs = {other.identity for run in runs for other in run.inputs.values()}
    for run in reversed(runs):
        if run.identity in inputs and run.identity not in wanted:
            continue
        kept.append(run)
        if run.state != "finished":
            wanted.update(other.identity for other in run.inputs.values())
    return kept[::-1]

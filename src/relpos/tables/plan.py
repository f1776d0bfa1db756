"""An experiment → its runs, a pure function: a loop over rows, tasks and seeds."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from relpos.config.check import refuse_overrides
from relpos.config.compose import composed
from relpos.config.conf import key_of, shipped
from relpos.errors import RelposError, refuse_unknown
from relpos.measures.measure import measured_columns
from relpos.pretrained.files import is_remote
from relpos.runs.networks import given_run
from relpos.runs.plan import finetune_run, plan
from relpos.runs.run import Run, closure
from relpos.tables.changes import effective
from relpos.tables.experiment import Experiment, overrides_of
from relpos.tables.table import PLAIN
from relpos.train.logger_settings import wandb_mode
from relpos.trust import NETWORK, allows

NETWORK_KEYS = ("network", "finetune.network")
"""Keys that name another network than the experiment file for its rows to be fine-tuned from."""


@dataclass(frozen=True)
class Tuning:
    """One fine-tuning: a task, the seed of its pre-training, its own seed."""

    task: str
    pretrain_seed: int
    seed: int
    run: Run


@dataclass(frozen=True)
class PlannedRow:
    """One planned row of a table: its runs, finished or not; none where the checkpoint to fine-tune from is not at hand.

    Args:
        name: in the experiment file.
        overrides: those of the row in the file, or what was typed in their place.
        pretrainings: one per pre-training seed.
        tunings: one per task and seed, for every pre-training.
    """

    name: str
    overrides: list[str]
    pretrainings: list[Run]
    tunings: list[Tuning]

    @property
    def runs(self) -> list[Run]:
        """All runs of the row, without their inputs (tokenizer, store)."""
        return [*self.pretrainings, *(tuning.run for tuning in self.tunings)]


def plan_table(experiment: Experiment, rows: list[str] | None = None, overrides: Iterable[str] = ()) -> list[PlannedRow]:
    """The rows of these names, or all, with their runs; `overrides` are more of them, for every row.

    Raises:
        RelposError: an override is wrong; the row is named.

    >>> from relpos.tables.experiment import load
    >>> [row] = plan_table(load("demo"), ["fixed"])
    >>> len(row.pretrainings), row.tunings[0].task, row.tunings[0].run.inputs["start"] is row.pretrainings[0]
    (1, 'cola', True)
    """
    overrides = list(overrides)
    typed = None if allows(NETWORK) or experiment.folder.resolve() == shipped("experiments") else {*map(key_of, overrides)}
    if typed is not None and not typed & {*NETWORK_KEYS} and is_remote(experiment.network or "???"):
        raise _asks_for_network(f"table {experiment.name}, network: {experiment.network}", "network=…")
    network = _network_of(experiment, overrides)
    result = []
    for name in experiment.select(rows):
        try:
            result.append(_row(experiment, network, name, overrides, typed))
        except RelposError as error:
            raise RelposError(f"table {experiment.name}, row {name!r}: {error}") from error
    return result


def _row(experiment: Experiment, network: Run | None, name: str, overrides: list[str], typed: Collection[str] | None) -> PlannedRow:
    """The row of this name, with the overrides of the command line, whose keys are `typed`; None: the file may use the network."""
    row = PlannedRow(name, effective(experiment, name, overrides), [], [])
    # A row without runs still shows its printed numbers.
    if (experiment.network and not network) or experiment.parameters or experiment.properties:
        return row
    first, tasks = _contents(experiment, network, [*experiment.rows[name], *overrides])
    if typed is not None:
        for content in (first, *tasks):
            _refuse_network(content, typed)
    label = partial(_labelled, table=experiment.name, row=name)
    seeds = [] if network else experiment.pretrain_seeds or [first["seed"]]
    pretrainings = [label(plan(first | {"seed": seed})) for seed in seeds]
    tunings = _tunings([network] if network else pretrainings, tasks, experiment.seeds, label)
    return replace(row, pretrainings=pretrainings, tunings=tunings)


def _refuse_network(content: Mapping[str, Any], typed: Collection[str]) -> None:
    """Refuses what would use the network, and the user's key, because a file says so and not what the user has typed.

    Raises:
        RelposError: says what to type.
    """
    data, logger = content.get("data") or {}, content.get("logger") or {}
    if str(data.get("_target_")).endswith(".Hub") and "data" not in typed:
        raise _asks_for_network("data=hub", "data=hub")
    if content.get("stage") == "pretrain" and "network" not in typed and is_remote(content.get("network") or "???"):
        raise _asks_for_network(f"network={content['network']}", "network=…")
    if not str(logger.get("_target_")).endswith(".wandb_logger"):
        return
    if logger.get("entity") and "logger.entity" not in typed:
        raise _asks_for_network(f"logger.entity={logger['entity']}", "logger.entity=…")
    said_so = "WANDB_MODE" in os.environ or any(key.partition(".")[0] == "logger" for key in typed)
    if wandb_mode(logger.get("mode", "auto")) == "online" and not said_so:
        raise _asks_for_network(f"logger.mode={logger.get('mode')}", "logger=wandb")


def _asks_for_network(what: str, typed: str) -> RelposError:
    return RelposError(f"{what}: this file would use the network; type {typed} yourself, or trust={NETWORK}")


def _contents(experiment: Experiment, network: Run | None, overrides: list[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The configurations of a row, with their interpolations: of its pre-trainings (empty with `network`), and of each task.

    Raises:
        RelposError: an override is wrong, two tasks have one name, or one has that of a measured column.
    """
    of_stage = {stage: overrides_of(stage, experiment, overrides) for stage in ("pretrain", "finetune")}
    of_tuning = of_stage["finetune"]
    if network:
        of_tuning = [override for override in of_tuning if key_of(override) != "network"]
        refuse_overrides("finetune", of_tuning, {"network": network.name})
        # Stands for the network, which comes as a run: nothing is to be pre-trained, and the recipe is that of base.
        of_tuning.append("network=given")
    first = {} if network else composed("pretrain", of_stage["pretrain"])
    tasks = [composed("finetune", [*of_tuning, f"task={task}"]) for task in experiment.tasks]
    # Columns, and the files with answers, are found by the name of a task.
    names = [content["task"]["name"] for content in tasks]
    if len(set(names)) < len(names):
        raise RelposError(f"tasks: two of them are called {max(names, key=names.count)!r}; name: in a task's file tells them apart")
    if taken := {*measured_columns(), *(plain.name for plain in PLAIN)} & {*names}:
        raise RelposError(f"tasks: {min(taken)} is what is measured of networks; name: in the task's file gives it another name")
    return first, tasks


def _tunings(networks: list[Run], tasks: list[dict[str, Any]], seeds: list[int], label: Callable[[Run], Run]) -> list[Tuning]:
    """The fine-tunings of some networks, each on every task with every seed; a run is planned for the first seed only."""
    tunings = []
    for network in networks:
        for content in tasks:
            # Planning resolves values and hashes files; all that a seed changes of the plan is the seed, see `reseeded`.
            first = label(finetune_run(content | {"seed": seeds[0]}, network))
            pretrain_seed = network.config.get("seed", 0)
            tunings += [Tuning(content["task"]["name"], pretrain_seed, seed, reseeded(first, seed)) for seed in seeds]
    return tunings


def reseeded(run: Run, seed: int) -> Run:
    """The fine-tuning, and the intermediate one before it, with another seed."""
    start = run.inputs["start"]
    # An intermediate fine-tuning has the seed of the one behind it; a pre-training keeps its own.
    inputs = run.inputs | {"start": reseeded(start, seed) if start.stage == "finetune" else start}
    name = f"{run.name.rpartition('-seed')[0]}-seed{seed}"
    return replace(run, name=name, meaning=run.meaning | {"seed": seed}, config=run.config | {"seed": seed}, inputs=inputs)


def _network_of(experiment: Experiment, overrides: Sequence[str]) -> Run | None:
    """The network that all rows are fine-tuned from; None if there is none, or if the one that the file names is not here.

    Raises:
        RelposError: the one that `overrides` name is not here.
    """
    if experiment.network is None:
        return None
    # The last one counts, as everywhere on a command line.
    if named := [override.partition("=")[2] for override in overrides if key_of(override) in NETWORK_KEYS]:
        return given_run(named[-1])
    # A plan without it still shows the rows, also where the file leaves the network to the user.
    with suppress(RelposError):
        return given_run(experiment.network) if experiment.network != "???" else None
    return None


def _labelled(run: Run, table: str, row: str) -> Run:
    """The run, and the fine-tuning before it, with the names of table and row for loggers; they are not part of the identity."""
    inputs = {name: _labelled(other, table, row) if other.stage == "finetune" else other for name, other in run.inputs.items()}
    return replace(run, config=run.config | {"table": table, "row": row}, inputs=inputs)


def of_stages(runs: list[Run], stages: list[str] | None) -> list[Run]:
    """The runs of these stages, and the runs that they need; None: all. `order`, which measures and makes no runs, is a stage, too.

    Raises:
        RelposError: there is no such stage.
    """
    known = ("toy", "tokenizer", "store", "pretrain", "finetune", "order")
    for stage in stages or ():
        refuse_unknown("stages: unknown stage", stage, known)
    # Needed runs of other stages are kept: a fine-tuning alone could not start.
    wanted = {run.identity for run in closure([run for run in runs if stages is None or run.stage in stages])}
    return [run for run in runs if run.identity in wanted]


def runs_of(rows: Sequence[PlannedRow]) -> list[Run]:
    """Every run of the rows once, inputs before the runs that need them: shared inputs, pre-trainings, fine-tunings.

    Sorted by depth, so that the longest chains start first; at equal depth, runs that others wait for come first, then the first
    pre-training of every row, the second of every row and so on. A table that is stopped early then has fewer seeds and every row.
    """
    rounds = {run.identity: number for row in rows for number, run in enumerate(row.pretrainings)}
    runs = closure([run for row in rows for run in row.runs])
    waited_for = {other.identity for run in runs for other in run.inputs.values()}
    depths: dict[str, int] = {}
    for run in runs:  # inputs come before the runs that need them
        depths[run.identity] = 1 + max((depths[other.identity] for other in run.inputs.values()), default=-1)
    # Sorted is stable: within these, the runs keep the order of the file.
    return sorted(runs, key=lambda run: (depths[run.identity], run.identity not in waited_for, rounds.get(run.identity, 0)))


def needed(runs: list[Run]) -> list[Run]:
    """The runs, inputs first, without missing inputs that only finished ones read: a store is not made again for these."""
    kept: list[Run] = []
    wanted: set[str] = set()
    inputs = {other.identity for run in runs for other in run.inputs.values()}
    # From the end, so that whoever reads a run is known before the run itself comes.
    for run in reversed(runs):
        finished = run.state == "finished"
        if run.identity in inputs and run.identity not in wanted and not finished:
            continue
        kept.append(run)
        if not finished:
            wanted.update(other.identity for other in run.inputs.values())
    return kept[::-1]

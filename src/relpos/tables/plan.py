"""The runs of an experiment: a pure function, with loops over rows, tasks and seeds."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from relpos.config.check import refuse_overrides
from relpos.config.compose import composed
from relpos.config.conf import key_of, shipped
from relpos.errors import RelposError, refuse_unknown
from relpos.measures.measure import measured_columns
from relpos.pretrained.files import is_remote
from relpos.readers import Plain
from relpos.runs.plan import plan
from relpos.runs.run import Run, closure
from relpos.stages import FILES
from relpos.stages.finetune import FinetuneStage
from relpos.stages.given import given_run
from relpos.tables.changes import effective
from relpos.tables.experiment import Experiment, overrides_of
from relpos.tables.table import PLAIN
from relpos.train.logger_settings import wandb_mode
from relpos.trust import NETWORK, allows

NETWORK_KEYS = ("network", "finetune.network")
"""Keys that replace the network from which an experiment file fine-tunes its rows."""


@dataclass(frozen=True)
class Tuning:
    """One fine-tuning: a task, the seed of its pre-training, its own seed."""

    task: str
    pretrain_seed: int
    seed: int
    run: Run


@dataclass(frozen=True)
class PlannedRow:
    """One planned row of a table: its runs, finished or not; none where the checkpoint to fine-tune
    from is not at hand.

    Args:
        name: its name in the experiment file.
        overrides: those of the row in the file, or those typed in their place.
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


def plan_table(
    experiment: Experiment,
    rows: list[str] | None = None,
    overrides: Sequence[str] = (),
) -> list[PlannedRow]:
    """The rows of these names, or all, with their runs; `overrides` are added to those of every
    row.

    Raises:
        RelposError: an override is wrong; the row is named.

    >>> from relpos.tables.experiment import load
    >>> [row] = plan_table(load("demo"), ["fixed"])
    >>> len(row.pretrainings), row.tunings[0].task, row.tunings[0].run.inputs["start"] is row.pretrainings[0]
    (1, 'cola', True)
    """
    may_use_network = allows(NETWORK) or experiment.folder.resolve() == shipped("experiments")
    typed = None if may_use_network else {*map(key_of, overrides)}
    if typed is not None and not typed & {*NETWORK_KEYS} and is_remote(experiment.network or "???"):
        raise _asks_for_network(
            f"table {experiment.name}, network: {experiment.network}",
            "network=…",
        )
    network = _network_of(experiment, overrides)
    result = []
    for name in experiment.select(rows):
        try:
            result.append(_row(experiment, network, name, overrides, typed))
        except RelposError as error:
            raise RelposError(f"table {experiment.name}, row {name!r}: {error}") from error
    return result


def _row(
    experiment: Experiment,
    network: Run | None,
    name: str,
    overrides: Sequence[str],
    typed: Collection[str] | None,
) -> PlannedRow:
    """The row of this name, planned.

    Args:
        network: from which it is fine-tuned; None: it is pre-trained.
        overrides: those of the command line.
        typed: their keys, which say whether the network may be used; None: the file may use it.
    """
    row = PlannedRow(name, effective(experiment, name, overrides), [], [])
    # A row without runs still shows its printed numbers.
    if (experiment.network and not network) or experiment.parameters or experiment.properties:
        return row
    first, tasks = _contents(experiment, network, [*experiment.rows[name], *overrides])
    if typed is not None:
        for content in filter(None, (first, *tasks)):
            _refuse_network(content, typed)
    label = partial(_labelled, table=experiment.name, row=name)
    seeds = [] if network else experiment.pretrain_seeds or [first["seed"]]
    row.pretrainings.extend(label(plan(first | {"seed": seed})) for seed in seeds)
    for start, content in product([network] if network else row.pretrainings, tasks):
        # Planning resolves values and hashes files, so that one seed is planned and the others are
        # derived.
        planned = label(FinetuneStage.plan(content | {"seed": experiment.seeds[0]}, start))
        for seed in experiment.seeds:
            run = reseeded(planned, seed)
            row.tunings.append(Tuning(content["task"]["name"], start.config.seed or 0, seed, run))
    return row


def _refuse_network(content: Plain, typed: Collection[str]) -> None:
    """Refuses to use the network, and the user's key, because of an experiment file instead of the
    user's own words.

    Raises:
        RelposError: the message says what to type.
    """
    if str(content["data"]["_target_"]).endswith(".Hub") and "data" not in typed:
        raise _asks_for_network("data=hub", "data=hub")
    network = content["network"]
    if content["stage"] == "pretrain" and network and "network" not in typed and is_remote(network):
        raise _asks_for_network(f"network={network}", "network=…")
    logger = {"_target_": "", "entity": None, "mode": "auto"} | (content["logger"] or {})
    if not str(logger["_target_"]).endswith(".wandb_logger"):
        return
    if logger["entity"] and "logger.entity" not in typed:
        raise _asks_for_network(f"logger.entity={logger['entity']}", "logger.entity=…")
    is_user_choice = "WANDB_MODE" in os.environ or "logger" in {
        key.partition(".")[0] for key in typed
    }
    if wandb_mode(logger["mode"]) == "online" and not is_user_choice:
        raise _asks_for_network(f"logger.mode={logger['mode']}", "logger=wandb")


def _asks_for_network(setting: str, typed: str) -> RelposError:
    return RelposError(
        f"{setting}: this file would use the network; type {typed} yourself, or trust={NETWORK}"
    )


def _contents(
    experiment: Experiment,
    network: Run | None,
    overrides: list[str],
) -> tuple[Plain, list[Plain]]:
    """The configurations of a row, resolved: that of its pre-trainings (empty with `network`), and
    one for each task.

    Raises:
        RelposError: an override is wrong, two tasks have the same name, or a task has the name of a
            measured column.
    """
    of_tuning = overrides_of("finetune", experiment, overrides)
    if network:
        of_tuning = [override for override in of_tuning if key_of(override) != "network"]
        refuse_overrides("finetune", of_tuning, {"network": network.name})
        # A placeholder, as the network comes as a run: nothing is pre-trained, and the recipe is
        # that of base.
        of_tuning.append("network=given")
        first: Plain = {}
    else:
        first = composed("pretrain", overrides_of("pretrain", experiment, overrides))
    tasks = [composed("finetune", [*of_tuning, f"task={task}"]) for task in experiment.tasks]
    # The name of a task leads to its column and its files of answers.
    names = [content["task"]["name"] for content in tasks]
    if len(set(names)) < len(names):
        raise RelposError(
            f"tasks: two of them are called {max(names, key=names.count)!r}; name: "
            f"in a task's file tells them apart"
        )
    if clashes := {*measured_columns(), *(plain.name for plain in PLAIN)} & {*names}:
        raise RelposError(
            f"tasks: {min(clashes)} is what is measured of networks; name: in the "
            f"task's file gives it another name"
        )
    return first, tasks


def reseeded(run: Run, seed: int) -> Run:
    """The fine-tuning with another seed, and so an intermediate fine-tuning before it; a
    pre-training keeps its own seed."""
    start = run.inputs["start"]
    if start.is_tuning:
        start = reseeded(start, seed)
    return replace(
        run,
        name=f"{run.name.rpartition('-seed')[0]}-seed{seed}",
        meaning=run.meaning | {"seed": seed},
        config=replace(run.config, seed=seed),
        inputs=run.inputs | {"start": start},
    )


def _network_of(experiment: Experiment, overrides: Sequence[str]) -> Run | None:
    """The network from which all rows are fine-tuned; None if rows are pre-trained, or if the
    file's network is not here.

    Raises:
        RelposError: the network that `overrides` name is not here.
    """
    if experiment.network is None:
        return None
    # The last override counts, as everywhere on a command line.
    if networks := [
        override.partition("=")[2] for override in overrides if key_of(override) in NETWORK_KEYS
    ]:
        return given_run(networks[-1])
    # The file leaves the network to the user.
    if experiment.network == "???":
        return None
    # A plan without the network still shows the rows.
    with suppress(RelposError):
        return given_run(experiment.network)
    return None


def _labelled(run: Run, table: str, row: str) -> Run:
    """The run, and a fine-tuning before it, with the names of table and row for loggers; they are
    not part of the identity."""
    inputs = dict(run.inputs)
    for name, input_run in run.inputs.items():
        if input_run.is_tuning:
            inputs[name] = _labelled(input_run, table, row)
    return replace(run, config=replace(run.config, table=table, row=row), inputs=inputs)


def of_stages(runs: list[Run], stages: list[str] | None) -> list[Run]:
    """The runs of these stages and the runs that they need; None: all.

    Raises:
        RelposError: there is no such stage.
    """
    if stages is None:
        return runs
    for stage in stages:
        refuse_unknown("stages: unknown stage", stage, FILES)
    # Needed runs of other stages are kept: a fine-tuning alone could not start.
    chosen = {run.identity for run in closure([run for run in runs if run.stage in stages])}
    return [run for run in runs if run.identity in chosen]


def runs_of(rows: Sequence[PlannedRow], measurements: Sequence[Run] = ()) -> list[Run]:
    """Every run of the rows once, inputs before the runs that need them: shared inputs,
    pre-trainings, fine-tunings and `measurements`.

    Runs are sorted by depth. At equal depth, inputs of other runs come first, then the first
    pre-training of every row, the second of every row and so on: a table that is stopped early has
    fewer seeds but every row.
    """
    rounds = {run.identity: number for row in rows for number, run in enumerate(row.pretrainings)}
    runs = closure([*(run for row in rows for run in row.runs), *measurements])
    inputs = _inputs(runs)
    depths: dict[str, int] = {}
    for run in runs:  # inputs come before the runs that need them
        depths[run.identity] = 1 + max(
            (depths[read.identity] for read in run.inputs.values()), default=-1
        )
    # Sorting is stable: runs of equal rank keep the order of the file.
    return sorted(
        runs,
        key=lambda run: (
            depths[run.identity],
            run.identity not in inputs,
            rounds.get(run.identity, 0),
        ),
    )


def _inputs(runs: Iterable[Run]) -> set[str]:
    """The identities of all runs that these runs read."""
    return {read.identity for run in runs for read in run.inputs.values()}


def needed(runs: list[Run]) -> list[Run]:
    """The runs, inputs first, without missing inputs that only finished runs read: a store is not
    made again for these."""
    needed_runs: list[Run] = []
    to_be_read: set[str] = set()
    inputs = _inputs(runs)
    # From the end, so that the readers of a run are known before the run itself comes.
    for run in reversed(runs):
        finished = run.state == "finished"
        if run.identity in inputs and run.identity not in to_be_read and not finished:
            continue
        needed_runs.append(run)
        if not finished:
            to_be_read |= _inputs([run])
    return needed_runs[::-1]

"""What rows of an experiment are and how many operations they take, without a plan: for commands that ask about many tables.

A plan checks every value, which loads torch, and hashes the text of its runs, which must be there for it. Stand-ins take the place
of the runs: their operations can be counted, but they have neither an identity nor a folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

from relpos.config.compose import values
from relpos.config.conf import key_of
from relpos.results.scale import SCHEME_KEYS
from relpos.results.values import Rates, rates_of
from relpos.runs.cost import flops
from relpos.runs.run import Run
from relpos.runs.tasks import node_of
from relpos.tables.experiment import Experiment
from relpos.tables.plan import overrides_of

KEYS = ("size", "steps", "batch", "length", "precision", "recipe")
"""Keys of a configuration that decide what its run costs, besides the task and what only one command has."""
RATES = ("recipe.position_lr", "recipe.conv_lr")
"""Keys in which rows of one scale may differ besides scheme, convolution and seed."""
WITHOUT_COST = {*SCHEME_KEYS, "data", "seed", "snapshots", "packing", "change"}
"""Keys that do not change the number of operations, as `relpos.runs.cost` counts them. Where text lies the user says."""
Overrides = tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """Training runs that cost the same.

    Args:
        run: a stand-in for one of them.
        count: how many there are.
    """

    run: Run
    count: int

    @cached_property
    def operations(self) -> float:
        """Of all of them."""
        return self.count * flops(self.run)


def work(experiment: Experiment, rows: Iterable[str], tunings: bool = True, pretrain_seeds: int | None = None) -> list[Work]:
    """What the runs of these rows cost, tokenizer and text not counted; finished or not.

    Args:
        experiment: what the file says.
        rows: names of rows.
        tunings: whether there are fine-tunings, too.
        pretrain_seeds: pre-trainings of each row; None: as many as the file says.

    >>> from relpos.tables.experiment import load
    >>> [(each.run.stage, each.count) for each in work(load("demo"), ["none", "fixed"])]
    [('pretrain', 2), ('finetune', 2), ('finetune', 2)]
    """
    # A published checkpoint is one pre-training.
    seeds = 1 if experiment.network else pretrain_seeds or len(experiment.pretrain_seeds or [0])
    # Rows that share a network and its dials cost the same: each kind is composed once and counted.
    counts: dict[tuple[Overrides, Overrides, str], int] = {}
    for name in rows:
        of_row = experiment.rows[name]
        # A checkpoint has no configuration of ours before it is fetched; the file says how large it is.
        network = _costly(experiment.size if experiment.network else overrides_of("pretrain", experiment, of_row))
        if not experiment.network:
            counts[network, (), ""] = counts.get((network, (), ""), 0) + seeds
        overrides = _costly(overrides_of("finetune", experiment, of_row))
        for task in _with_intermediate(overrides, tuple(experiment.tasks)) if tunings else ():
            key = network, overrides, task
            # Every pre-training is fine-tuned with every seed.
            counts[key] = counts.get(key, 0) + seeds * len(experiment.seeds)
    return [Work(_tuning(*key) if key[2] else _pretraining(key[0]), count) for key, count in counts.items()]


def rates(overrides: Iterable[str]) -> Rates:
    """The factors of the learning rate of a pre-training's overrides, as `relpos.results.values.rates_of` gives them.

    >>> rates(["position=tisa", "recipe.position_lr=30", "recipe.conv_lr=3"])
    (30.0, 3.0)
    """
    return rates_of(
        _values("pretrain", tuple(override for override in overrides if key_of(override) in RATES), ("recipe",))["recipe"]
    )


def columns(experiment: Experiment) -> list[str]:
    """The columns that the experiment's tasks fill."""
    return [column for task in experiment.tasks for column in node_of(task).get("columns", [])]


def _costly(overrides: Iterable[str]) -> Overrides:
    # A tuple, by which the functions below are cached; without what is idle, so that more rows are alike.
    return tuple(each for each in overrides if key_of(each).split(".")[0] not in WITHOUT_COST)


@cache
def _pretraining(overrides: Overrides) -> Run:
    config = _values("pretrain", overrides, (*KEYS, "first", "vocabulary"))
    tokenizer = Run("tokenizer", "", {}, {"vocabulary": config["vocabulary"]})
    return Run("pretrain", "", {"size": config["size"]}, config, {"tokenizer": tokenizer})


@cache
def _tuning(network: Overrides, overrides: Overrides, task: str) -> Run:
    config = _values("finetune", (*overrides, f"task={task}"), (*KEYS, "task"))
    return Run("finetune", "", {}, config, {"start": _pretraining(network)})


@cache
def _with_intermediate(overrides: Overrides, tasks: Overrides) -> Overrides:
    """The tasks, then the intermediate tasks that are not among them."""
    configured = [_values("finetune", (*overrides, f"task={task}"), ("intermediate",)) for task in tasks]
    first = {config["intermediate"]["task"] for config in configured}
    return (*tasks, *sorted(first - {None, "none", *tasks}))


# The experiment files repeat each other's overrides, and `relpos claims` asks about all of them.
_values = cache(values)

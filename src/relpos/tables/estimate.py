"""What rows of an experiment cost, without a plan: for commands that ask about many tables at once.

A plan composes every run with Hydra, checks it and looks at its text, which takes half a second a table. Here only those files of
conf/ are read that decide how many operations a run needs. Stand-ins take the place of the runs: they have a cost, but neither an
identity nor a folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from relpos.config.arguments import SHORT
from relpos.config.conf import conf_dir
from relpos.files import read_yaml
from relpos.runs.cost import flops
from relpos.runs.run import Run
from relpos.runs.tasks import node_of
from relpos.tables.experiment import Experiment
from relpos.tables.plan import OF_POSITION, overrides_of

KEYS = ("steps", "batch", "length", "precision", "first", "vocabulary", "intermediate")
"""Keys of the top level that decide what a run costs."""
GROUPS = {"size": None, "recipe": ("steps", "batch", "epochs")}
"""Groups that decide it too, and which of their keys; None: all. The third such group is the task."""
WITHOUT_COST = {*OF_POSITION, "data", "seed", "snapshots", "packing", "change"}
"""Keys that do not change the number of operations, as `relpos.runs.cost` counts them."""
Overrides = tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """Training runs that cost the same.

    Args:
        run: a stand-in for one of them, for `relpos.runs.cost`.
        count: how many there are.
        operations: of all of them.
    """

    run: Run
    count: int
    operations: float


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
    seeds = 1 if experiment.network else pretrain_seeds or len(experiment.pretrain_seeds or [0])
    counts: dict[tuple[Overrides, Overrides, str], int] = {}
    for name in rows:
        of_row = experiment.rows[name]
        network = _costly(experiment.size if experiment.network else overrides_of("pretrain", experiment, of_row))
        if not experiment.network:
            counts[network, (), ""] = counts.get((network, (), ""), 0) + seeds
        overrides = _costly(overrides_of("finetune", experiment, of_row))
        for task in _with_intermediate(overrides, tuple(experiment.tasks)) if tunings else ():
            key = network, overrides, task
            counts[key] = counts.get(key, 0) + seeds * len(experiment.seeds)
    runs = {key: _tuning(*key) if key[2] else _pretraining(key[0]) for key in counts}
    return [Work(runs[key], count, count * _operations(*key)) for key, count in counts.items()]


def scheme(overrides: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Position scheme and convolution of a pre-training's overrides, without those that repeat a default.

    >>> scheme(["position=tisa", "kernels=5", "size=small"]) == scheme(["position=tisa", "conv=none"])
    True
    >>> scheme(["position=tisa", "kernels=3"]) == scheme(["position=tisa"])
    False
    """
    values = dict(override.partition("=")[::2] for override in overrides)
    default: dict[str, Any] = dict(_read("pretrain"))
    for group, option in (("position", "absolute"), ("conv", "none")):
        default[group] = option
        default |= {f"{group}.{key}": value for key, value in _read(f"{group}/{values.get(group, option)}").items()}
    chosen = {key: value for key, value in values.items() if key.split(".")[0] in OF_POSITION}
    return frozenset((key, value) for key, value in chosen.items() if str(default.get(key)) != value)


def columns(experiment: Experiment) -> list[str]:
    """The columns that the experiment's tasks fill."""
    return [column for task in experiment.tasks for column in _task(task).get("columns", [])]


def _costly(overrides: Iterable[str]) -> Overrides:
    keys = ((override.lstrip("+~").partition("=")[0], override) for override in overrides)
    return tuple(override for key, override in keys if key == "data" or key.split(".")[0] not in WITHOUT_COST)


@cache
def _operations(network: Overrides, overrides: Overrides, task: str) -> float:
    return flops(_tuning(network, overrides, task) if task else _pretraining(network))


@cache
def _pretraining(overrides: Overrides) -> Run:
    cfg = _configured("pretrain", overrides)
    tokenizer = Run("tokenizer", "", {}, {"vocabulary": cfg.vocabulary}, _text(cfg))
    config = _plain(cfg, "steps", "batch", "length", "precision", "first")
    return Run("pretrain", "", _plain(cfg, "size"), config, {"tokenizer": tokenizer})


@cache
def _tuning(network: Overrides, overrides: Overrides, task: str) -> Run:
    cfg = _configured("finetune", overrides, task)
    config = _plain(cfg, "steps", "batch", "length", "precision", "recipe") | {"task": _task(task)}
    return Run("finetune", "", {}, config, {"start": _pretraining(network)} | _text(cfg))


def _text(cfg: DictConfig) -> dict[str, Run]:
    """The input of runs on the generated language, whose sentences are short."""
    return {"toy": Run("toy", "", {}, {})} if cfg.data == "toy" else {}


@cache
def _with_intermediate(overrides: Overrides, tasks: Overrides) -> Overrides:
    """The tasks, then the intermediate tasks that are not among them."""
    first = {_configured("finetune", overrides, task).intermediate.task for task in tasks}
    return (*tasks, *sorted(first - {None, "none", *tasks}))


@cache
def _configured(command: str, overrides: Overrides, task: str | None = None) -> DictConfig:
    """The configuration as `relpos.config.compose.compose` gives it, without the groups that do not change the cost."""
    primary = _read(command)
    content = {key: primary[key] for key in KEYS if key in primary}
    options = {key: value for entry in primary["defaults"] if isinstance(entry, dict) for key, value in entry.items()}
    values = dict(override.partition("=")[::2] for override in overrides)
    content["data"] = values.pop("data", options["data"])
    for group, keys in GROUPS.items():
        options[group] = values.pop(group, options[group]).replace("${size}", options["size"])
        option = _option(group, options[group])
        content[group] = option if keys is None else {key: option.get(key) for key in keys}
    if task is not None:
        content["task"] = _task(task)
    cfg = OmegaConf.create(content)
    for key, value in values.items():
        path = f"{key}.{SHORT[command][key]}" if key in SHORT.get(command, {}) else key
        OmegaConf.update(cfg, path, yaml.safe_load(value))
    return cfg


@cache
def _task(name: str) -> dict[str, Any]:
    return node_of(name)


def _option(group: str, name: str) -> dict[str, Any]:
    content = dict(_read(f"{group}/{name}"))
    parents = [_option(group, parent) for parent in content.pop("defaults", []) if parent != "_self_"]
    return {key: value for part in (*parents, content) for key, value in part.items()}


@cache
def _read(name: str) -> dict[str, Any]:
    return dict(read_yaml(conf_dir() / f"{name}.yaml"))


def _plain(cfg: DictConfig, *keys: str) -> dict[str, Any]:
    """These keys as plain values."""
    chosen = {key: cfg[key] for key in keys}
    return {
        key: OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value for key, value in chosen.items()
    }

"""A configuration → the run that it names, with the runs that must be finished before it. Nothing is executed; files are hashed."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from relpos.config.compose import targets
from relpos.data.filehash import described
from relpos.data.source import Toy
from relpos.errors import RelposError, nearest
from relpos.files import sha256
from relpos.pretrained.files import checkpoint_files, is_published, tokenizer_files
from relpos.pretrained.hub import located
from relpos.runs import debug
from relpos.runs.run import Run, read_record
from relpos.runs.tasks import node_of, own_files, resolved
from relpos.trust import find, instantiate

DIALS = ("steps", "batch", "seed", "precision", "length")
"""Keys that are part of the identity of every training run."""
TOKENIZER_THREADS = 2
"""Fixed, because SentencePiece's pieces depend on the number of threads."""
INTERMEDIATE = {"task": "${task.intermediate}", "steps": None}
"""The default of `intermediate` in conf/finetune.yaml."""
MACHINE = ("speed", "logger", "snapshots", "evaluations", "checkpoint_every", "log_every", "debug")
"""Keys that a run reads but that do not change its result: they are not part of its identity."""


def plan(cfg: DictConfig) -> Run:
    """The run that a checked configuration names.

    Raises:
        RelposError: `cfg.stage` is not one of `store`, `pretrain`, `finetune` and `noop`; or a file that the run needs is missing.
    """
    stages = {"store": store_run, "pretrain": pretrain_run, "finetune": finetune_run, "noop": noop_run}
    if cfg.stage not in stages:
        raise RelposError(f"unknown stage {str(cfg.stage)!r}.{nearest(str(cfg.stage), stages)}")
    return stages[cfg.stage](cfg)


def noop_run(cfg: DictConfig) -> Run:
    """A run that sleeps, for tests of launchers."""
    meaning = {"seed": cfg.seed, "label": cfg.label}
    name = f"seed{cfg.seed}" if cfg.label is None else f"{cfg.label}-seed{cfg.seed}"
    return Run("noop", name, meaning, meaning | {"seconds": cfg.seconds, "failures": cfg.failures})


def store_run(cfg: DictConfig, tokenizer: Run | None = None) -> Run:
    """Corpus → tokenizer → store. A `tokenizer` that is passed is used instead of one trained on the corpus."""
    node = _plain(cfg.data)
    source = instantiate(node, "data")
    inputs = _toy_input(source)
    corpus = {} if inputs else {"corpus": source.identity()}
    name = type(source).__name__.lower()
    text = {"vocabulary": cfg.vocabulary, "sample": source.sample, "threads": TOKENIZER_THREADS}
    tokenizer = tokenizer or Run("tokenizer", f"{name}-{cfg.vocabulary}", corpus | text, text | {"data": node}, inputs)
    config = {"heldout": source.heldout, "data": node}
    return Run("store", name, corpus | {"heldout": source.heldout}, config, inputs | {"tokenizer": tokenizer})


def pretrain_run(cfg: DictConfig) -> Run:
    """Store → pre-training."""
    plain = _plain(debug.shortened(cfg))
    start = given_run(str(plain["network"])) if plain.get("network") else None
    if start:
        plain |= network_settings(start)
    store = store_run(cfg, _tokenizer_of(start, plain["vocabulary"]) if start else None)
    keys = (*DIALS, "packing")
    meaning = {key: plain[key] for key in keys} | _architecture(plain) | {"recipe": _recipe(plain["recipe"])}
    meaning["pairs"] = plain["data"].get("pairs")
    if plain["first"]["share"]:  # otherwise left out: runs of one stage keep the identity from before two-stage training
        meaning["first"] = plain["first"]
    name = f"{start.name if start else _shape_name(plain)}-{store.name}-seed{cfg.seed}"
    inputs = {"store": store, "tokenizer": store.inputs["tokenizer"]} | ({"start": start} if start else {})
    return Run("pretrain", name, meaning, meaning | _machine(plain), inputs)


def finetune_run(cfg: DictConfig, pretrained: Run | None = None) -> Run:
    """Pre-training (or a given model) → intermediate task, where there is one → the task.

    Args:
        cfg: a checked configuration.
        pretrained: the run to start from; None: the one that `cfg` names.
    """
    cfg = debug.shortened(cfg)
    task, of_task = resolved(_plain(cfg.task))
    intermediate = cfg.intermediate
    if intermediate.task not in (None, "none", task["name"]):
        steps = {} if intermediate.steps is None else {"steps": intermediate.steps}
        start = finetune_run(with_task(cfg, intermediate.task, **steps), pretrained)
    elif pretrained:
        start = pretrained
    else:
        start = given_run(str(cfg.network)) if cfg.get("network") else pretrain_run(pretraining_of(cfg))
    plain = _plain(cfg)
    source = instantiate(plain["data"], "data")
    inputs = {"start": start}
    meaning: dict[str, Any] = {key: plain[key] for key in DIALS} | of_task | {"recipe": _recipe(plain["recipe"])}
    if start.stage != "finetune" and (change := _change(plain["change"])):  # an intermediate task has already changed the network
        meaning["change"] = change
    if plain["head"] != "plain":
        meaning["head"] = plain["head"]
    if "files" not in meaning:  # the task is one of the source's
        inputs |= _toy_input(source)
        if "toy" not in inputs:
            meaning["glue"] = source.glue_identity(task["name"], task.get("hub"))
    network = start.name if cfg.get("network") else _shape_name(plain)
    name = f"{task['name']}-{network}{change_name(meaning)}-seed{cfg.seed}"
    return Run("finetune", name, meaning, meaning | _machine(plain) | {"data": plain["data"], "task": task}, inputs)


def pretraining_of(cfg: DictConfig) -> DictConfig:
    """The configuration of the pre-training that a fine-tuning's configuration describes."""
    shared = ("size", "position", "conv", "data", "speed", "logger", "vocabulary", "k", "outside", "kernels", "length")
    plain = _plain(cfg)
    config = OmegaConf.create({key: plain[key] for key in (*shared, *MACHINE)} | plain["pretrain"])
    config.stage = "pretrain"
    return config


def with_task(cfg: DictConfig, name: str, **dials: Any) -> DictConfig:
    """The same fine-tuning on another task: steps, batch and intermediate task are the other task's; `dials` are set afterwards.

    Raises:
        RelposError: there is no such task.
    """
    node = node_of(name)
    other = OmegaConf.create(OmegaConf.to_container(cfg, resolve=False))
    assert isinstance(other, DictConfig)
    if name != cfg.task.name:
        defaults = {"steps": "${recipe.steps}", "batch": "${recipe.batch}", "intermediate": INTERMEDIATE}
        other.merge_with(OmegaConf.create({"task": None}))
        other.task = node
        for key, value in defaults.items():
            other[key] = value
    for key, value in dials.items():
        other[key] = value
    return other


def _architecture(plain: dict[str, Any]) -> dict[str, Any]:
    """Size, position and convolution. A class from outside the package is identified by the hash of its source file."""
    nodes = {key: plain[key] for key in ("size", "position", "conv")}
    sources = {}
    for path, node in targets(nodes):
        target = node["_target_"]
        if not target.startswith("relpos."):
            found = find(target, path.split(".")[0], f"{path}._target_")
            sources[target] = sha256(Path(inspect.getfile(found)))
    return nodes | ({"sources": sources} if sources else {})


def _recipe(recipe: dict[str, Any]) -> dict[str, Any]:
    """The recipe without `steps`, `batch` and `head`, whose dials at the top level count, and without idle multipliers."""
    recipe = {key: value for key, value in recipe.items() if key not in ("steps", "batch", "head")}
    if recipe.get("conv_lr") in (None, recipe.get("position_lr")):
        recipe.pop("conv_lr", None)
    if recipe.get("position_lr") == 1:
        del recipe["position_lr"]
    return recipe


def _change(change: dict[str, Any]) -> dict[str, Any]:
    """The keys of `change` that are read; empty where nothing is changed."""
    if change["tisa"]:
        return change
    return {"positions": change["positions"]} if change["positions"] != "keep" else {}


def change_name(meaning: dict[str, Any]) -> str:
    """How a fine-tuning's folder says what was changed: `-removed+tisa3`; empty where nothing was."""
    change = meaning.get("change") or {"positions": "keep"}
    removed = "-removed" if change["positions"] == "remove" else ""
    return removed + (f"+tisa{change['tisa']}" if change.get("tisa") else "")


def _machine(plain: dict[str, Any]) -> dict[str, Any]:
    return {key: plain[key] for key in MACHINE}


def _shape_name(plain: dict[str, Any]) -> str:
    names = [name for key in ("position", "conv") if (name := _class_name(plain[key])) != "no_conv"]
    return f"{'-'.join(names)}-{plain['size']['layers']}x{plain['size']['hidden']}"


def _class_name(node: dict[str, Any]) -> str:
    """The class's name in snake case; of a merge, the names of its parts: `absolute+tisa`."""
    parts = node.get("parts") or [node]
    return "+".join(_snake(part["_target_"].rpartition(".")[2]) for part in parts)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("no_position", "none")


def source_of(run: Run) -> Any:
    """The source that the run's `data` describes; for the toy language, the files that its run has written."""
    source = instantiate(run.config["data"], "data")
    return source.at(run.inputs["toy"].path) if "toy" in run.inputs else source


def task_files(run: Run) -> Any:
    """Where `relpos.data.glue.read` finds the rows of a fine-tuning's task: the user's own files, or GLUE as `data` has it."""
    return own_files(run) or source_of(run).glue_location()


def _toy_input(source: Any) -> dict[str, Run]:
    if not isinstance(source, Toy):
        return {}
    return {"toy": Run("toy", f"seed{source.seed}", source.identity() or {}, {"seed": source.seed})}


def network_settings(start: Run) -> dict[str, Any]:
    """Size, position, conv and vocabulary of a given network."""
    from relpos.train.weights import read_model_config

    settings = read_model_config(start.path)
    return {key: settings[key] for key in ("size", "position", "conv", "vocabulary")}


def _tokenizer_of(start: Run, vocabulary: int) -> Run:
    """The tokenizer in the folder of a given network; it is identified by its own files, so that networks may share a store.

    Raises:
        RelposError: there is none.
    """
    files = tokenizer_files(start.path)
    if not files:
        raise RelposError(f"network={start.path}: there is no tokenizer in it")
    meaning = {"tokenizer": described(files, start.path)}
    return Run("given", f"{start.name}-tokenizer", meaning, {"vocabulary": vocabulary}, folder=str(start.path))


def given_run(name: str) -> Run:
    """A run's folder, a model folder or a published checkpoint that the user named.

    A published checkpoint is identified by the SHA-256 of its files, one from the hub by its id and commit.

    Raises:
        RelposError: there is no model in it.
    """
    folder = located(name)
    if is_published(folder):
        if folder.parent.name == "snapshots" and not Path(name).is_dir():
            return Run(
                "given", name.replace("/", "-"), {"hub": name.partition("@")[0], "revision": folder.name}, {}, folder=str(folder)
            )
        identity = described(checkpoint_files(folder), folder)
        return Run("given", folder.resolve().name, {"model": identity}, {}, folder=str(folder.resolve()))
    model = folder / "model" if (folder / "model").is_dir() else folder
    weights = model / "model.safetensors"
    if not weights.is_file():
        raise RelposError(f"network={folder}: no finished run and no model folder (model.safetensors is missing)")
    identity = read_record(folder).get("identity") or described([weights], model)
    return Run("given", folder.resolve().name, {"model": identity}, {}, folder=str(model.resolve()))


def _plain(node: DictConfig) -> dict[str, Any]:
    content = OmegaConf.to_container(node, resolve=True)
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}

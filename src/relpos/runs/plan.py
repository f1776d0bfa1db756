"""A configuration → the run that it names, with the runs that must be finished before it. Nothing is executed; files are hashed.

The task of a fine-tuning is one of conf/task, or one of the user's own files. Both end as the arguments of one `Task`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from relpos.config.compose import resolved, unresolved
from relpos.config.conf import conf_file, options
from relpos.data.filehash import described
from relpos.data.glue import OwnFiles
from relpos.data.objective import RATE, trained_for
from relpos.data.own_task import METRICS, OwnTask, is_task_file, read_task_file
from relpos.data.source import READING, Toy
from relpos.errors import RelposError, nearest, refuse_unknown
from relpos.files import digest
from relpos.places import expanded
from relpos.pretrained.files import tokenizer_files
from relpos.readers import sha256
from relpos.runs.networks import described_by, given_run, tokenizer_of
from relpos.runs.run import Run
from relpos.runs.shelf import checked_metric
from relpos.train.network import scheme_name
from relpos.trust import find, instantiate, targets

Content = Mapping[str, Any]
"""A configuration as plain values: `config` where it is resolved, `content` with its interpolations."""
DIALS = ("steps", "batch", "seed", "precision", "length")
"""Keys that are part of the identity of every training run."""
TOKENIZER_THREADS = 2
"""Fixed, because SentencePiece's pieces depend on the number of threads."""
TOKENIZER: Mapping[str, Any] = {"kind": "unigram", "cased": False, "byte_fallback": False}
"""The default of `tokenizer` in conf/pretrain.yaml, but for its file."""
INTERMEDIATE = {"task": "${task.intermediate}", "steps": None}
"""The default of `intermediate` in conf/finetune.yaml."""
PAPERS_LAYERS = {
    "attention": "bidirectional",
    "norm_first": False,
    "norm": "layer",
    "glu": False,
    "bias": True,
    "qk_norm": False,
}
"""Keys of `size` that an identity leaves out where they have these values, which are those of the papers' networks."""
IDLE: Mapping[str, tuple[Any, ...]] = {
    "position_lr": (1,),
    "optimizer": ("adamw",),
    "masking": (None, RATE),
    "schedule": ("linear",),
}
"""Keys of a recipe that an identity leaves out where they have one of these values: they change nothing then."""
MACHINE = ("speed", "logger", "snapshots", "evaluations", "checkpoint_every", "log_every")
"""Keys that a run reads but that do not change its result: they are not part of its identity."""
WATCHING = ("pytorch_lightning.callbacks.lr_monitor.LearningRateMonitor",)
"""Callbacks that do not change a result."""
SWITCHES = ("overfit_batches", "fast_dev_run")
"""Keys of `trainer` that change a result."""
PRETRAINED = tuple(f"heldout_{what}" for what in ("loss", "accuracy", "perplexity"))
PRETRAINED += ("perplexity", "unigram_perplexity", "parameters", "position_parameters", "steps")
"""The final figures of a pre-training; those of a fine-tuning are the columns of its task, steps and training rows."""
RESERVED = ("glue", "loss", "order", "heldout_loss", "shuffle_gap", "perplexity", "parameters")
"""Names of other figures in tables and claims."""
OWN_TASK = f"{OwnTask.__module__}.{OwnTask.__qualname__}"
CLASS_METRICS = {"accuracy": None, "f1": 2, "accuracy_and_f1": 2, "matthews": 2}
"""The metrics of relpos.train.metrics that compare classes → the number of classes they are made for; None: any."""
NUMBER_METRICS = ("pearson", "spearman", "pearson_and_spearman")
"""The metrics of relpos.train.metrics that compare numbers."""
UNREAD = "albert_"
"""Prefix of a task's keys that are left out of identities: only `recipe=tisa` reads them, and its part of the identity has their
values. They were added when there were runs without them."""


def plan(cfg: DictConfig | Mapping[str, Any]) -> Run:
    """The run that a checked configuration names. The network that it starts from is looked up here, and nowhere behind.

    Raises:
        RelposError: the command of `cfg` makes no run; a file that it needs is missing; or it will have no figure `metric`.
    """
    content = unresolved(cfg)
    if content.get("stage") not in ("store", "pretrain", "finetune"):
        raise RelposError("this configuration makes no run; those of data, pretrain and finetune make one")
    config = resolved(content)
    if content["stage"] == "store":
        return store_run(config)
    network = given_run(str(config["network"])) if config.get("network") else None
    if content["stage"] == "pretrain":
        run, figures = pretrain_run(content, network), PRETRAINED
    else:
        run = finetune_run(content, network or pretrain_run(_pretraining_of(config)))
        figures = (*run.config["task"]["columns"], "steps", "training_rows")
    if config.get("metric"):
        checked_metric(config["metric"], figures)  # behind a training it would come too late
    return run


def store_run(config: Content, tokenizer: Run | None = None) -> Run:
    """Corpus → tokenizer → store.

    Args:
        config: `data` and `vocabulary`, resolved.
        tokenizer: is used instead of one that is trained on the corpus.
    """
    source, inputs = _text(config)
    # The toy language is written by a run, which is an input; other text is identified by what it contains.
    corpus = {} if inputs else {"corpus": source.identity()}
    if not inputs and not source.alike:
        corpus["reading"] = READING
    name = type(source).__name__.lower()
    text = {"vocabulary": config["vocabulary"], "sample": source.sample, "threads": TOKENIZER_THREADS}
    data = {"data": config["data"]}
    own = config["tokenizer"]
    if tokenizer is None and own.get("file"):
        tokenizer = _own_tokenizer(expanded(own["file"]).resolve(), config["vocabulary"])
    # Left out where they are ours.
    text |= {key: value for key, value in own.items() if key in TOKENIZER and value != TOKENIZER[key]}
    label = "-".join(
        [name, str(config["vocabulary"]), *(str(text[key] if key == "kind" else key) for key in TOKENIZER if key in text)]
    )
    tokenizer = tokenizer or Run("tokenizer", label, corpus | text, text | data, inputs)
    meaning = {"heldout": source.heldout}
    # The run's name says so, too: two stores of one text would differ by their hash alone.
    if source.shuffle:  # the tokenizer's text stays as it stands, so that the pieces are the same
        name, meaning["shuffle"] = f"{name}-shuffled{source.shuffle}", source.shuffle
    return Run("store", name, corpus | meaning, meaning | data, inputs | {"tokenizer": tokenizer})


def _own_tokenizer(path: Path, vocabulary: int) -> Run:
    """The tokenizer of a file, or of the folder of a checkpoint or a run. It is identified by what its files contain; nothing else
    of the configuration counts."""
    folder = path / "model" if (path / "model").is_dir() else path
    files = tokenizer_files(folder)
    if not path.is_file() and not files:
        raise RelposError(f"tokenizer={path}: there is no such file, and no folder with a tokenizer")
    meaning: Content = {"file": sha256(path)} if path.is_file() else {"files": described(files, folder)}
    return Run("tokenizer", "own", dict(meaning), {"file": str(folder), "vocabulary": vocabulary})


def pretrain_run(content: Content, start: Run | None = None) -> Run:
    """Store → pre-training.

    Args:
        content: the checked configuration, with its interpolations.
        start: the network that is trained further, of the stage `given`.
    """
    config = resolved(content)
    if start:
        # After the composed values: the network on disk says what it is, and overrides of its shape were refused.
        config |= described_by(start)
        config["scheme"] = start.config.get("scheme")
    store = store_run(config, tokenizer_of(start, config["vocabulary"]) if start else None)
    meaning = {key: config[key] for key in (*DIALS, "packing")} | _architecture(config)
    objective = trained_for(config)
    # The objective is part of the recipe, under `masking`.
    meaning["recipe"] = _recipe(config["recipe"] | {"masking": objective.masking})
    meaning |= _lightning(config)
    meaning["pairs"] = config["data"].get("pairs")
    if config["data"].get("shuffle"):  # the store has it, too; here claims and labels find it
        meaning["shuffle"] = config["data"]["shuffle"]
    if config["first"]["share"]:  # left out of runs of one stage
        meaning["first"] = dict(config["first"])
        if meaning["first"]["packing"] == config["packing"]:
            del meaning["first"]["packing"]
    size, causal = config["size"], "-causal" * (config["size"].get("attention") == "causal")
    network = start.name if start else f"{scheme_name(config)}-{size['layers']}x{size['hidden']}{causal}"
    name = f"{network}-{store.name}-seed{config['seed']}"
    inputs = {"store": store, "tokenizer": store.inputs["tokenizer"]} | ({"start": start} if start else {})
    return Run("pretrain", name, meaning, meaning | _machine(config), inputs)


def finetune_run(content: Content, start: Run, later: tuple[str, ...] = ()) -> Run:
    """Pre-training (or a given model) → intermediate task, where there is one → the task.

    Args:
        content: the checked configuration, with its interpolations.
        start: the run to start from.
        later: the intermediate tasks of the fine-tunings that this one is made for.

    Raises:
        RelposError: an intermediate task is its own.
    """
    config = resolved(content)
    task, task_meaning = _task_and_meaning(config["task"])
    intermediate = config["intermediate"]
    # A task is not fine-tuned before itself, as MNLI is not where MNLI is its own intermediate task.
    if intermediate["task"] not in (None, "none", task["name"]):
        if intermediate["task"] in later:
            raise RelposError(f"task.intermediate={intermediate['task']}: this task would be fine-tuned before itself")
        # Left out rather than null, which would replace the steps of that task's recipe.
        steps = {} if intermediate["steps"] is None else {"steps": intermediate["steps"]}
        start = finetune_run(with_task(content, intermediate["task"], **steps), start, (*later, intermediate["task"]))
    inputs = {"start": start}
    meaning: dict[str, Any] = {key: config[key] for key in DIALS} | task_meaning | {"recipe": _recipe(config["recipe"])}
    meaning |= _lightning(config)
    if start.stage != "finetune" and (change := _change(config["change"])):  # an intermediate task has already changed the network
        meaning["change"] = change
    # Left out where it is plain.
    if config["head"] != "plain":
        meaning["head"] = config["head"]
    source, toy = _text(config)
    # A task of the user's own has its files hashed already; of GLUE the source knows where it lies.
    if "files" not in meaning:  # the task is one of the source's
        inputs |= toy
        if not toy:
            meaning["glue"] = source.glue_identity(task)
    # For the reader alone: the identity behind it tells apart what these words do not.
    name = f"{task['name']}-{_network_name(start)}{_change_name(meaning)}-seed{config['seed']}"
    scheme = None if "change" in meaning else start.config.get("scheme")
    more = {"data": config["data"], "task": task, "scheme": scheme}
    return Run("finetune", name, meaning, meaning | _machine(config) | more, inputs)


def _network_name(start: Run) -> str:
    """How a fine-tuning's folder names the network that it starts from: a given one, or a pre-training without text and seed."""
    first = start.beginning
    if first.stage == "given":
        return start.name
    return first.name.removesuffix(f"-{first.inputs['store'].name}-seed{first.config['seed']}")


def _pretraining_of(config: Content) -> Content:
    """The configuration of the pre-training that a fine-tuning's configuration describes; both are resolved."""
    shared = ("size", "position", "conv", "data", "vocabulary", "tokenizer", "k", "outside", "kernels", "length", *MACHINE)
    return {key: config[key] for key in (*shared, "scheme") if key in config} | config["pretrain"] | {"stage": "pretrain"}


def _task_and_meaning(node: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of a run's `Task` as plain values, and the task's part of a fine-tuning's identity.

    For a task of conf/task the identity holds all arguments but those of `UNREAD`. For a task of the user's own it holds the hashes
    of the files instead of their folder.

    Raises:
        RelposError: something is wrong with a task of the user's own or its files.
    """
    if node["_target_"] != OWN_TASK:  # compared by name, because instantiating the tasks of a large table takes seconds
        return node, {"task": {key: value for key, value in node.items() if not key.startswith(UNREAD)}}
    task: OwnTask = instantiate(node, "task")
    arguments = task.arguments()
    # In tables and claims a column of such a name would be taken for GLUE's.
    names = {"mnli_m", "mnli_mm", *RESERVED, *options()["task"]}
    if arguments["name"] in names:
        raise RelposError(f"task.name={arguments['name']}: a task or a figure of relpos has this name; choose another one")
    known = {key: value for key, value in arguments.items() if key != "folder"}
    # Without its folder: the files of the intermediate task are part of the identity of its own run.
    if is_task_file(str(known["intermediate"])):
        known["intermediate"] = Path(known["intermediate"]).name
    return arguments, {"task": known, "files": task.files.identity()} | _metric_source(arguments)


def _metric_source(arguments: dict[str, Any]) -> dict[str, Any]:
    """The hash of the module of a metric from outside the package, for the identity; empty for those of relpos.train.metrics."""
    module, _, name = arguments["metric"].rpartition(".")
    if module != METRICS:
        find(arguments["metric"], "metric", "task.metric")
        # A module that is built in has no file, and is as stable as Python itself.
        file = getattr(sys.modules[module], "__file__", None)
        return {"sources": {module: sha256(Path(file))}} if file else {}
    known = [*CLASS_METRICS, *NUMBER_METRICS]
    if name not in known:
        raise RelposError(f"task.metric={name}: no such metric in {module}.{nearest(name, known)}")
    labels = arguments["labels"]
    # Refused when it is planned: behind the training the metric's own error would come too late.
    if (name in NUMBER_METRICS) != (labels is None):
        raise RelposError(f"task.metric={name}: it does not compare {'numbers' if labels is None else 'classes'}")
    if labels is not None and CLASS_METRICS[name] not in (None, len(labels)):
        raise RelposError(f"task.metric={name}: it is for two classes, this task has {len(labels)}")
    return {}


def _node_of(name: str) -> dict[str, Any]:
    """The configuration of a task by its name in conf/task or by the path of a user's YAML file.

    Raises:
        RelposError: there is no such task or file, or a key of the file is unknown.
    """
    if is_task_file(name):
        return _node_of("custom") | read_task_file(name)
    refuse_unknown("unknown task", name, options()["task"])
    return dict(conf_file(f"task/{name}"))


def with_task(cfg: DictConfig | Content, name: str, **dials: Any) -> Content:
    """The same fine-tuning on another task: steps, batch and intermediate task are the other task's; `dials` are set afterwards.

    Raises:
        RelposError: there is no such task.
    """
    content = unresolved(cfg)
    task_meaning = {"steps": "${recipe.steps}", "batch": "${recipe.batch}", "intermediate": INTERMEDIATE}
    return content | ({} if name == content["task"]["name"] else {"task": _node_of(name)} | task_meaning) | dials


def _architecture(config: dict[str, Any]) -> dict[str, Any]:
    """Size, position, convolution, and an objective of the user's own. A class from outside the package is identified by the hash
    of its source file. Keys of the size that came later are left out where the layers are the papers': runs keep the identity from
    before."""
    size = {key: value for key, value in config["size"].items() if key not in PAPERS_LAYERS} | other_layers(config["size"])
    nodes = {"size": size, "position": config["position"], "conv": config["conv"]}
    if not config["objective"]["_target_"].startswith("relpos."):  # others are named by `masking`
        nodes["objective"] = config["objective"]
    sources = _sources(nodes)
    return nodes | ({"sources": sources} if sources else {})


def _sources(nodes: Content) -> dict[str, str]:
    """Class of the user's own → the hash of its source file, which stands for the version that other
    classes have."""
    outside = {
        node["_target_"]: find(node["_target_"], path.split(".")[0], f"{path}._target_")
        for path, node in targets(nodes)
        if not node["_target_"].startswith(("relpos.", "pytorch_lightning."))
    }
    return {name: sha256(Path(inspect.getfile(found))) for name, found in outside.items()}


def other_layers(size: Content) -> dict[str, Any]:
    """The keys of a size in which its layers are not the papers'."""
    return {key: size[key] for key, value in PAPERS_LAYERS.items() if size.get(key, value) != value}


def _recipe(recipe: dict[str, Any]) -> dict[str, Any]:
    """The recipe without `steps`, `batch` and `head`, whose dials at the top level count, and without what is idle."""
    recipe = {key: value for key, value in recipe.items() if key not in ("steps", "batch", "head")}
    # Two ways to write one training must give one identity: a list of equal values is that value.
    if isinstance(rates := recipe["position_lr"], list) and len(set(rates)) == 1:
        recipe["position_lr"] = rates[0]
    if recipe.get("conv_lr") in (None, recipe.get("position_lr")):  # convolutions take the rate of positions by themselves
        recipe.pop("conv_lr", None)
    if recipe.get("schedule") == "linear":  # which falls from the first step on, and has no last phase
        del recipe["decay"]
    return {key: value for key, value in recipe.items() if value not in IDLE.get(key, ())}


def _change(change: dict[str, Any]) -> dict[str, Any]:
    """The keys of `change` that are read; empty where nothing is changed."""
    if change["tisa"]:
        return change
    return {"positions": change["positions"]} if change["positions"] != "keep" else {}


def _change_name(meaning: dict[str, Any]) -> str:
    """How a fine-tuning's folder says what was changed: `-removed+tisa3`; empty where nothing was."""
    change = meaning.get("change") or {"positions": "keep"}
    removed = "-removed" if change["positions"] == "remove" else ""
    return removed + (f"+tisa{change['tisa']}" if change.get("tisa") else "")


def _lightning(config: Content) -> dict[str, Any]:
    """Callbacks and switches of Lightning's Trainer by which a result may change, for the identity;
    empty without any."""
    callbacks = {name: node for name, node in (config.get("callbacks") or {}).items() if node["_target_"] not in WATCHING}
    trainer = {key: value for key in SWITCHES if (value := (config.get("trainer") or {}).get(key))}
    sources = _sources({"callbacks": callbacks})
    parts = {"callbacks": callbacks | ({"sources": sources} if sources else {}), "trainer": trainer}
    return {key: part for key, part in parts.items() if part}


def _machine(config: dict[str, Any]) -> dict[str, Any]:
    keys = (*MACHINE, "callbacks", "trainer", "scheme")
    return {key: config[key] for key in keys if key in config}


def source_of(run: Run) -> Any:
    """The source that the run's `data` describes; for the toy language, the files that its run has written."""
    source = instantiate(run.config["data"], "data")
    return source.at(run.inputs["toy"].path) if "toy" in run.inputs else source


def task_files(run: Run) -> Any:
    """Where `relpos.data.glue.read` finds the rows of a fine-tuning's task: the user's own files, or GLUE as `data` has it."""
    return OwnFiles(Path(run.config["task"]["folder"])) if "files" in run.meaning else source_of(run).glue_location()


def refuse_changed(run: Run) -> None:
    """Called when a run has read its text or its task: hours may lie between its plan and its turn in a table.

    Raises:
        RelposError: the files are no longer those of which the run's identity has the hashes.
    """
    source = source_of(run)
    now: dict[str, Callable[[], Any]] = {
        "corpus": source.identity,
        "glue": lambda: source.glue_identity(run.config["task"]),
        "files": lambda: task_files(run).identity(),
    }
    for key in now.keys() & run.meaning.keys():
        if digest(now[key]()) != digest(run.meaning[key]):
            raise RelposError(f"{run.name}: the files of its {key} have changed since it was planned: give the command again")


def _text(config: Content) -> tuple[Any, dict[str, Run]]:
    """The source that `data` describes, and the run that writes it if it is the toy language."""
    source = instantiate(config["data"], "data")
    is_toy = isinstance(source, Toy)
    return source, {"toy": Run("toy", f"seed{source.seed}", source.identity() or {}, {"seed": source.seed})} if is_toy else {}

"""One task → columns, `predictions/` and `model/`.

The task is one of conf/task, or one of the user's own files. Both end as the arguments of one
`Task`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos.config.compose import resolved
from relpos.config.conf import conf_file, options
from relpos.config.schema import Change, NetworkKeys, TrainingConfig
from relpos.data.glue import OwnFiles
from relpos.data.own_task import METRICS, OwnTask, is_task_file, read_task_file
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.task_batches import TuningSteps
from relpos.data.tasks import Task, authors_steps
from relpos.errors import RelposError, nearest, refuse_unknown
from relpos.model.architecture import Architecture, ClassifierKind
from relpos.model.build import classifier_on
from relpos.model.encoder import encoder_of
from relpos.model.heads import Classifier
from relpos.ranges import parsed
from relpos.readers import Plain, besides, sha256
from relpos.runs.run import Run
from relpos.stages.change import changed_position
from relpos.stages.given import given_run
from relpos.stages.identity import (
    DIALS,
    MACHINE,
    lightning_part,
    machine_part,
    recipe_part,
)
from relpos.stages.pretrain import PretrainStage
from relpos.stages.stage import TrainingStage
from relpos.stages.store import text_name
from relpos.stages.toy import corpus_of
from relpos.train.group import ALONE
from relpos.train.weights import model_folder
from relpos.trust import find, instantiate

if TYPE_CHECKING:
    from pytorch_lightning import Trainer

    from relpos.data.tokenizer import Tokenizer
    from relpos.train.finetune import Finetuning, FinetuningData

INTERMEDIATE = {"task": "${task.intermediate}", "steps": None}
"""The default of `intermediate` in conf/finetune.yaml."""
RESERVED = ("glue", "loss", "order", "heldout_loss", "shuffle_gap", "perplexity", "parameters")
"""Names of other figures in tables and claims."""
OWN_TASK = f"{OwnTask.__module__}.{OwnTask.__qualname__}"
CLASSES = {"accuracy": None, "f1": 2, "accuracy_and_f1": 2, "matthews": 2}
CLASSES |= dict.fromkeys(("pearson", "spearman", "pearson_and_spearman"), 0)
"""The metrics of relpos.train.metrics → the number of classes they are made for; None: any, 0: they
compare numbers."""
UNREAD = "albert_"
"""Prefix of a task's keys that are left out of identities: only `recipe=tisa` reads them, and its
part of the identity has their values. They were added when there were runs without them."""


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig(TrainingConfig):
    """What a fine-tuning is called with; where it counts no steps, it counts epochs."""

    task: Plain
    head: ClassifierKind = "plain"


class FinetuneStage(TrainingStage):
    config: FinetuneConfig
    stage, version = "finetune", 3

    @classmethod
    def plan(cls, content: Plain, start: Run | None = None, later: tuple[str, ...] = ()) -> Run:
        """Pre-training (or a given model) → intermediate task, where there is one → the task.

        Args:
            content: the checked configuration, with its interpolations.
            start: the run to start from; None: the network or the pre-training of the
                configuration.
            later: the intermediate tasks of the fine-tunings that this one is made for.

        Raises:
            RelposError: an intermediate task is its own.
        """
        config = resolved(content)
        if start is None:
            named = config.get("network")
            start = given_run(str(named)) if named else PretrainStage.plan(_pretraining_of(config))
        task, task_meaning = _task_and_meaning(config["task"])
        intermediate, steps = config["intermediate"]["task"], config["intermediate"]["steps"]
        # A task is not fine-tuned before itself, as MNLI is not where MNLI is its own intermediate
        # task.
        if intermediate not in (None, "none", task["name"]):
            if intermediate in later:
                raise RelposError(
                    f"task.intermediate={intermediate}: this task would be fine-tuned before itself"
                )
            # No key rather than null, which would replace the steps of that task's recipe.
            dials = {} if steps is None else {"steps": steps}
            earlier = with_task(content, intermediate, **dials)
            start = cls.plan(earlier, start, (*later, intermediate))
        inputs = {"start": start}
        meaning: Plain = {key: config[key] for key in DIALS} | task_meaning
        meaning |= {"recipe": recipe_part(config["recipe"])} | lightning_part(config)
        # An intermediate task has already changed the network.
        change = Change() if start.is_tuning else parsed(Change, config["change"])
        if change.meaning:
            meaning["change"] = change.meaning
        # A plain head is left out.
        if config["head"] != "plain":
            meaning["head"] = config["head"]
        corpus = corpus_of(config)
        # A task of the user's own has its files hashed already; of GLUE the source knows where it
        # lies.
        if "files" not in meaning:  # the task is one of the source's
            inputs |= corpus.inputs
            if not corpus.inputs:
                meaning["glue"] = corpus.source.glue_identity(task)
        # For the reader alone: the identity behind it tells apart what these words do not.
        name = f"{task['name']}-{_network_name(start)}{change.name}-seed{config['seed']}"
        scheme = None if change.meaning else start.config.scheme
        more = {"data": config["data"], "task": task, "scheme": scheme}
        return cls.of(name, meaning, meaning | machine_part(config) | more, inputs)

    def parts(self) -> tuple[Finetuning, FinetuningData, Tokenizer]:
        from relpos.runs.training import microbatch_of, recorder_of  # which loads Lightning
        from relpos.train.finetune import Finetuning, FinetuningData, Splits, kept_rows

        config, task = self.config, self.task()
        folder = model_folder(self.start.network)
        tokenizer = load_tokenizer(folder)
        rows = kept_rows(self._rows(folder))
        splits = Splits(self.task_files(), task, tokenizer, config.length, rows)
        tested = [split for split in task.test.values() if split in splits]
        # a mistake in a file shows before training
        encoded, *_ = [splits[split] for split in ("train", *task.dev.values(), *tested)]
        self.refuse_changed()
        model = self.model()
        batch = config.batch
        steps = config.steps or authors_steps(task, len(encoded), batch, config.recipe.epochs)
        recorder = recorder_of(self, model.encoder, ALONE)
        module = Finetuning(
            task,
            model,
            config.recipe,
            steps,
            seed=config.seed,
            precision=config.precision,
            log_every=config.log_every,
            recorder=recorder,
        )
        microbatch = microbatch_of(self, model.encoder, ALONE)
        tuning = TuningSteps(
            encoded,
            config.seed,
            batch,
            steps,
            microbatch,
            few_shapes=recorder is not None,
            padding=not model.encoder.by_token,
        )
        return module, FinetuningData(tuning, splits), tokenizer

    def _rows(self, folder: Path) -> str:
        """A key for the encoded rows: all that the run depends on but its seed and the weights that
        it starts from."""
        meaning = besides(self.meaning, ["seed"])
        inputs = {name: run.identity for name, run in self.inputs.items() if name != "start"}
        files = (path for path in folder.iterdir() if path.suffix in (".model", ".json", ".txt"))
        tokenizer = {path.name: sha256(path) for path in files}
        return json.dumps([meaning, inputs, tokenizer], sort_keys=True, default=str)

    def results(self, module: Finetuning, data: FinetuningData, trainer: Trainer) -> Plain:
        """Scores the dev splits; writes `predictions/` and `dev/` besides."""
        from relpos.train.finetune import columns

        module.model.to(trainer.strategy.root_device)  # the trainer has moved it to the CPU
        predictions = self.path / "predictions"
        precision = self.config.precision
        scores = columns(module.model, module.task, data.splits, precision, predictions)
        for logger in trainer.loggers:
            logger.log_metrics(scores["columns"], step=trainer.global_step)
        rows = len(data.splits["train"])
        return scores | {"steps": trainer.global_step, "training_rows": rows}

    def figures(self) -> tuple[str, ...]:
        return (*self.config.task["columns"], "steps", "training_rows")

    def task(self) -> Task:
        task: Task = instantiate(self.config.task, "task")
        return task

    def task_files(self) -> Any:
        """Where `relpos.data.glue.read` finds the rows of the task: the user's own files, or GLUE
        as `data` has it."""
        if "files" in self.meaning:
            return OwnFiles(Path(self.config.task["folder"]))
        return self.source().glue_location()

    def hashed(self) -> dict[str, Callable[[], Any]]:
        return super().hashed() | {
            "glue": lambda: self.source().glue_identity(self.config.task),
            "files": lambda: self.task_files().identity(),
        }

    def refuse_absent(self) -> None:
        from relpos.data.toy.write import FOLDERS  # with word lists, for this question alone

        super().refuse_absent()
        task = self.config.task
        if "toy" in self.inputs and task["folder"] not in FOLDERS:
            raise RelposError(
                f"task={task['name']}: the toy language has no such task; choose data=files"
            )
        if self.meaning.get("glue", self) is None:
            place = self.source().glue_location().folder
            files = f"folder {task['folder']} with files of task {task['name']}"
            raise RelposError(f"data.glue: there is no {files} in {place}")

    def architecture(self) -> Architecture:
        before = self.start.architecture()
        return replace(before, position=changed_position(before.position, self.config.change))

    def model(self) -> Classifier:
        """A classifier on the encoder that the run starts from. Its output layer is drawn from
        `seed`, so is the pooler unless an intermediate task has trained one."""
        start = self.changed_start()
        dropout = encoder_of(start).embedding.dropout.p
        return classifier_on(start, self.task().outputs, dropout, self.config.head).train()

    def steps(self) -> float:
        if steps := super().steps():
            return steps
        config, task = self.config, self.config.task
        epochs = config.recipe.epochs or task["steps"] / -(-task["rows"] // task["batch"])
        return float(epochs * -(-task["rows"] // config.batch))


def _network_name(start: Run) -> str:
    """How a fine-tuning's folder names the network that it starts from: a given one, or a
    pre-training without text and seed."""
    first = start.beginning
    if first.is_given:
        return start.name
    text = text_name(first.inputs["store"])
    return first.name.removesuffix(f"-{text}-seed{first.config.seed}")


def _pretraining_of(config: Plain) -> Plain:
    """The configuration of the pre-training that a fine-tuning's configuration describes; both are
    resolved."""
    network = (*NetworkKeys.__annotations__, "data", "tokenizer", "length", *MACHINE, "scheme")
    shared = {key: config[key] for key in network if key in config}
    return shared | config["pretrain"] | {"stage": "pretrain"}


def _task_and_meaning(node: Plain) -> tuple[Plain, Plain]:
    """The arguments of a run's `Task` as plain values, and the task's part of a fine-tuning's
    identity.

    For a task of conf/task the identity holds all arguments but those of `UNREAD`. For a task of
    the user's own it holds the hashes of the files instead of their folder.

    Raises:
        RelposError: something is wrong with a task of the user's own or its files.
    """
    # compared by name, because instantiating the tasks of a large table takes seconds
    if node["_target_"] != OWN_TASK:
        part = {key: value for key, value in node.items() if not key.startswith(UNREAD)}
        return node, {"task": part}
    task: OwnTask = instantiate(node, "task")
    arguments = task.arguments()
    # In tables and claims a column of such a name would be taken for GLUE's.
    names = {"mnli_m", "mnli_mm", *RESERVED, *options()["task"]}
    if arguments["name"] in names:
        raise RelposError(
            f"task.name={arguments['name']}: a task or a figure of relpos has this "
            f"name; choose another one"
        )
    part = besides(arguments, ["folder"])
    # Without its folder: the files of the intermediate task are part of the identity of its own
    # run.
    if is_task_file(str(part["intermediate"])):
        part["intermediate"] = Path(str(part["intermediate"])).name
    return arguments, {"task": part, "files": task.files.identity()} | _metric_source(arguments)


def _metric_source(arguments: Plain) -> Plain:
    """The hash of the module of a metric from outside the package, for the identity; empty for
    those of relpos.train.metrics."""
    module, _, name = arguments["metric"].rpartition(".")
    if module != METRICS:
        find(arguments["metric"], "metric", "task.metric")
        # A module that is built in has no file, and is as stable as Python itself.
        file = getattr(sys.modules[module], "__file__", None)
        return {"sources": {module: sha256(Path(file))}} if file else {}
    if name not in CLASSES:
        raise RelposError(
            f"task.metric={name}: no such metric in {module}.{nearest(name, CLASSES)}"
        )
    labels, classes = arguments["labels"], CLASSES[name]
    # Refused when it is planned: behind the training the metric's own error would come too late.
    if (classes == 0) != (labels is None):
        raise RelposError(
            f"task.metric={name}: it does not compare {'numbers' if labels is None else 'classes'}"
        )
    if classes and classes != len(labels):
        raise RelposError(f"task.metric={name}: it is for two classes, this task has {len(labels)}")
    return {}


def _node_of(name: str) -> Plain:
    """The configuration of a task by its name in conf/task or by the path of a user's YAML file.

    Raises:
        RelposError: there is no such task or file, or a key of the file is unknown.
    """
    if is_task_file(name):
        return _node_of("custom") | read_task_file(name)
    refuse_unknown("unknown task", name, options()["task"])
    return dict(conf_file(f"task/{name}"))


def with_task(content: Plain, name: str, **dials: Any) -> Plain:
    """The same fine-tuning on another task: steps, batch and intermediate task are the other
    task's; `dials` are set afterwards.

    Raises:
        RelposError: there is no such task.
    """
    if name != content["task"]["name"]:
        content = content | {
            "task": _node_of(name),
            "steps": "${recipe.steps}",
            "batch": "${recipe.batch}",
            "intermediate": INTERMEDIATE,
        }
    return content | dials

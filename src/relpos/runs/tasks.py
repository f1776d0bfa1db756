"""The task of a fine-tuning: one of conf/task, or one of the user's own files. Both end as the arguments of one `Task`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from relpos.config.conf import conf_file, options
from relpos.data.own_task import METRICS, OwnTask, is_task_file, read_task_file
from relpos.errors import RelposError, nearest, refuse_unknown
from relpos.readers import sha256
from relpos.trust import find, instantiate

OWN = f"{OwnTask.__module__}.{OwnTask.__qualname__}"
CLASS_METRICS = {"accuracy": None, "f1": 2, "accuracy_and_f1": 2, "matthews": 2}
"""The metrics of relpos.train.metrics that compare classes → the number of classes they are made for; None: any."""
NUMBER_METRICS = ("pearson", "spearman", "pearson_and_spearman")
"""The metrics of relpos.train.metrics that compare numbers."""
UNREAD = "albert_"
"""Prefix of a task's keys that are left out of identities: only `recipe=tisa` reads them, and its part of the identity has their
values. They were added when there were runs without them."""


def node_of(name: str) -> dict[str, Any]:
    """The configuration of a task by its name in conf/task or by the path of a user's YAML file.

    Raises:
        RelposError: there is no such task or file, or a key of the file is unknown.
    """
    if is_task_file(name):
        return node_of("custom") | read_task_file(name)
    refuse_unknown("unknown task", name, options()["task"])
    return dict(conf_file(f"task/{name}"))


def task_and_meaning(node: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of a run's `Task` as plain values, and the task's part of a fine-tuning's identity.

    For a task of conf/task the identity holds all arguments but those of `UNREAD`. For a task of the user's own it holds the hashes
    of the files instead of their folder.

    Raises:
        RelposError: something is wrong with a task of the user's own or its files.
    """
    if node["_target_"] != OWN:  # compared by name, because instantiating the tasks of a large table takes seconds
        return node, {"task": {key: value for key, value in node.items() if not key.startswith(UNREAD)}}
    task: OwnTask = instantiate(node, "task")
    arguments = task.arguments()
    # In tables and claims a column of such a name would be taken for GLUE's.
    names = {"mnli_m", "mnli_mm", *options()["task"]}
    if arguments["name"] in names:
        raise RelposError(f"task.name={arguments['name']}: a task of relpos has this name; choose another one")
    known = {key: value for key, value in arguments.items() if key != "folder"}
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

"""The two stages that train: from a run to a trainer and back to final metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from relpos.analysis.kernels import draw_kernels
from relpos.data.objective import trained_for
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.store import Store
from relpos.data.tasks import Task, authors_steps, epoch_steps
from relpos.model.build import count
from relpos.readers import sha256
from relpos.runs.fit import fit, microbatch_of, recorder_of
from relpos.runs.model import finetuned_settings, finetuning_model, pretrained_settings, pretraining_model
from relpos.runs.plan import task_files
from relpos.runs.run import Run
from relpos.runs.shelf import figures
from relpos.train.checkpoint import stopping
from relpos.train.finetune import Finetuning, FinetuningData, Splits, columns, read_before
from relpos.train.group import ALONE, present
from relpos.train.loggers import conclude, log_figure
from relpos.train.optim import Recipe
from relpos.train.pretrain import Pretraining, PretrainingData
from relpos.train.weights import model_folder, save_model
from relpos.trust import instantiate


def pretrain(run: Run) -> dict[str, Any]:
    """Pre-trains, alone or as one of several processes; the first writes `model/`, `snapshots/` and the figure of the kernels."""
    config, store = run.config, Store(run.inputs["store"].path)
    start = run.inputs["start"].path if "start" in run.inputs else None
    # Read before the training: hours later the network that it goes on with may be gone.
    settings, tokenizer = pretrained_settings(config, store.vocabulary, start), load_tokenizer(run.inputs["tokenizer"].path)
    model = pretraining_model(config, store.vocabulary, start)
    group = present()
    dials = _of(config, "steps", "seed", "precision", "log_every")
    objective = trained_for(config)
    recorder = recorder_of(run, model.encoder, group)
    module = Pretraining(model, Recipe.of(config["recipe"]), **dials, group=group, recorder=recorder)
    examples = _of(config, "seed", "steps", "batch", "length", "packing", "pairs")
    microbatch = microbatch_of(run, model.encoder, group)
    data = PretrainingData(
        store, **examples, microbatch=microbatch, first=config.get("first"), group=group,
        few_shapes=recorder is not None, objective=objective, heldout=objective.heldout,
    )  # fmt: skip
    trainer = fit(run, module, data, config["evaluations"], microbatch)
    if module.evaluated != trainer.global_step:  # no evaluation was due after the last step, or this process began behind it
        with stopping():
            trainer.validate(module, data, verbose=False)
    if not group.first:
        return {}
    parameters = count(model)
    # From here on the first process alone: several would write the same files.
    figure = run.path / "figures" / "kernels.png"
    if draw_kernels(model, figure):
        log_figure(trainer.loggers, "kernels", figure)
    save_model(run.path / "model", model, settings, tokenizer)
    metrics = module.result | {
        "perplexity": module.result["heldout_perplexity"],
        "parameters": parameters["total"],
        "position_parameters": parameters["position"],
        "steps": config["steps"],
    }
    conclude(trainer.loggers, figures(metrics))
    return metrics


def finetune(run: Run) -> dict[str, Any]:
    """Fine-tunes on one task; writes `model/` and `predictions/`."""
    config, folder = run.config, model_folder(run.inputs["start"].network)
    task: Task = instantiate(config["task"], "task")
    tokenizer, location = load_tokenizer(folder), task_files(run)
    splits = read_before(_content(run, folder), Splits(location, task, tokenizer, config["length"]))
    encoded, *_ = [splits[split] for split in ("train", *task.dev.values())]  # a mistake in a dev file shows before training
    settings, model = finetuned_settings(run, task.outputs), finetuning_model(run)
    recipe = dict(config["recipe"])
    steps = tuning_steps(config["steps"], recipe.pop("epochs", None), task, len(encoded), config["batch"])
    recorder = recorder_of(run, model.encoder, ALONE)
    dials = _of(config, "seed", "precision", "log_every")
    module = Finetuning(task, model, Recipe(**recipe), steps, **dials, recorder=recorder)
    microbatch, several = microbatch_of(run, model.encoder, ALONE), _of(config, "seed", "batch")
    data = FinetuningData(encoded, **several, steps=steps, microbatch=microbatch, few_shapes=recorder is not None)
    trainer = fit(run, module, data, 0, microbatch)
    model.to(trainer.strategy.root_device)  # the trainer has moved it to the CPU
    result = columns(model, task, splits, config["precision"], run.path / "predictions")
    for logger in trainer.loggers:
        logger.log_metrics(result["columns"], step=steps)
    save_model(run.path / "model", model, settings, tokenizer)
    conclude(trainer.loggers, figures(result | {"steps": steps}))
    return result | {"steps": steps, "training_rows": len(encoded)}


def _content(run: Run, folder: Path) -> str:
    """A key for a fine-tuning's encoded rows: all that the run depends on but its seed and the weights that it starts from."""
    meaning = {key: value for key, value in run.meaning.items() if key != "seed"}
    inputs = {name: other.identity for name, other in run.inputs.items() if name != "start"}
    tokenizer = {path.name: sha256(path) for path in folder.iterdir() if path.suffix in (".model", ".json", ".txt")}
    return json.dumps([meaning, inputs, tokenizer], sort_keys=True, default=str)


def tuning_steps(steps: int | None, epochs: float | None, task: Task, rows: int, batch: int) -> int:
    """The steps asked for; else the epochs asked for; else the authors' epochs."""
    if steps is not None:
        return steps
    return max(1, round(epochs * epoch_steps(rows, batch))) if epochs else authors_steps(task, rows, batch)


def _of(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: config[key] for key in keys}

"""Where metrics go: always a JSON line for each logged step in the run's folder, and a progress bar
on stderr; on request to another logger, too."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypedDict

import pytorch_lightning as pl
from pytorch_lightning.loggers import Logger, TensorBoardLogger, WandbLogger
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

from relpos.errors import RelposError, one_line, say
from relpos.files import naming, opened, write_text
from relpos.process import command
from relpos.progress import SECONDS, display
from relpos.readers import Plain, digest, read_bytes
from relpos.train.logger_settings import Mode, arguments, refuse_logger, set_up, wandb_mode
from relpos.trust import instantiate

LONGEST_TAG = 64
"""Characters; Weights & Biases allows no more."""
_open: list[Any] = []
"""Runs of Weights & Biases that are open in this process. One that broke off is closed before the
next begins, which may be the same run once more: W&B refuses to begin what is open."""


class JsonLines(Logger):
    """`metrics.jsonl`: the truth about a run; other loggers are views of it. If somebody deletes or
    cuts it meanwhile, the next line brings all of it back.

    Args:
        path: the file; lines after `step` are cut, so that a run that is continued from a
            checkpoint logs each step once, and so are damaged ones.
        step: the step from which the run is continued.
    """

    def __init__(self, path: Path, step: int) -> None:
        super().__init__()
        self.path = path
        # A process that was killed may have written half a line, and steps after its last
        # checkpoint.
        lines = read_bytes(path).split(b"\n")[:-1] if step and path.exists() else []
        self.lines = [f"{line.decode()}\n" for line in lines if _step(line) <= step]
        self._restore()

    name = "jsonl"
    version = 0

    def log_hyperparams(self, *args: object, **kwargs: object) -> None:
        """The configuration stands in the record."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Appends one line."""
        numbers = {name: float(value) for name, value in metrics.items()}
        line = json.dumps({"step": step} | numbers) + "\n"
        with naming(self.path):
            if not self.path.exists() or self.path.stat().st_size != self.size:
                self._restore()
            # Closed after each line, so that a kill loses none and whoever watches the run reads it
            # at once.
            with opened(self.path, "a", encoding="utf-8") as file:
                file.write(line)
        self.lines.append(line)
        self.size += len(line)  # all of it is ASCII

    def _restore(self) -> None:
        write_text(self.path, "".join(self.lines))
        self.size = self.path.stat().st_size


def _step(line: bytes) -> float:
    """The step of a line; infinity for a line that a crash has damaged."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf


def logger_of(node: Plain, run: RunFacts, folder: Path) -> Logger:
    """The logger that a configuration describes: a function, as those below, or a class of
    Lightning's.

    A class has its own arguments alone, of which `save_dir` is the run's folder if it is not given;
    it gets the run's configuration as hyperparameters.
    """
    refuse_logger(node)  # here too: a worker's machine may lack packages of the launcher's
    logger: Logger = instantiate(node, "logger", **(given := arguments(node, run, folder)))
    if not hasattr(logger, "log_metrics"):
        raise RelposError(
            f"logger._target_={node['_target_']}: it returned {logger!r:.100}, which is no logger"
        )
    if "run" not in given:
        logger.log_hyperparams({"identity": run["id"], **run["config"]})
    return logger


class RunFacts(TypedDict):
    """What a logger is told about a run, by the names of Weights & Biases."""

    id: str
    name: str
    group: str
    job_type: str
    tags: list[str]
    config: Plain


def identified(
    identity: str,
    name: str,
    stage: str,
    meaning: Plain,
    *,
    scheme: str,
    table: str | None = None,
    row: str | None = None,
) -> RunFacts:
    """What a logger is told. The runs of a table share its group, and so do those of a `-m` sweep;
    table, row, scheme and stage are tags, and keys to group by.

    A run that several tables share is logged under the table that made it.
    """
    words = {"table": table, "row": row, "scheme": scheme, "stage": stage}
    labels = {key: word for key, word in words.items() if word}
    # W&B refuses two equal tags
    tags = list(dict.fromkeys(value[:LONGEST_TAG] for value in labels.values()))
    return {
        "id": identity,
        "name": name,
        "group": table or _sweep() or name,
        "job_type": stage,
        "tags": tags,
        "config": meaning | labels,
    }


def _sweep() -> str | None:
    """A name for the sweep that this process is part of, the same whenever it is typed; None where
    there is none."""
    program, *words = command().split()
    return (
        f"{words[0]}-sweep-{digest(words)}"
        if program == "relpos" and {"-m", "--multirun"} & {*words}
        else None
    )


def wandb_logger(
    project: str,
    entity: str | None,
    mode: Mode,
    *,
    run: RunFacts,
    folder: Path,
) -> Logger:
    """Weights & Biases under our own run identity: group = table, job_type = stage.

    Metrics of a fine-tuning are called `finetune-…`, so that no panel averages its loss with that
    of the pre-training.

    Args:
        mode: see `wandb_mode`.
        run: as `identified` gives it.
        folder: where the offline files go; they are uploaded later with `wandb sync`.
    """
    import wandb

    os.environ.setdefault("WANDB_SILENT", "true")
    where = wandb_mode(mode)
    set_up(where)
    folder.mkdir(parents=True, exist_ok=True)
    while _open:
        _open.pop().finish(exit_code=1)
    arguments: Plain = {
        "project": project,
        "entity": entity,
        "dir": folder,
        "mode": where,
        **run,
    }
    # A worker makes one run after another; by default the second would be logged into a first that
    # was interrupted.
    settings = wandb.Settings(console="off", reinit="create_new")
    try:
        experiment = wandb.init(settings=settings, **arguments)
    except wandb.errors.Error as error:
        say(f"relpos: Weights & Biases is out of reach ({one_line(error)}); logging offline")
        wandb.teardown()  # else its process has this run still, and refuses it
        set_up("offline")
        experiment = wandb.init(settings=settings, **arguments | {"mode": "offline"})
    _open.append(experiment)
    return WandbLogger(
        experiment=experiment,
        prefix="" if run["job_type"] == "pretrain" else run["job_type"],
    )


def log_again(logger: Logger, lines: Iterable[Plain]) -> None:
    """Tells Weights & Biases what a run logged before it was interrupted, or what the run logged
    whose checkpoint it begins with.

    Every start of a run is a file of its own there, and the last one that is uploaded replaces the
    others.
    """
    if isinstance(logger, WandbLogger):
        for line in lines:
            step = line.pop("step")
            logger.log_metrics(line, step=step)


def conclude(loggers: list[Logger], figures: dict[str, float]) -> None:
    """Tells the loggers that the run is over. Its final figures become summary metrics of Weights &
    Biases, by which pages sort and group."""
    for logger in loggers:
        logger.finalize("success")
        if isinstance(logger, WandbLogger):
            logger.experiment.summary.update(figures)
            logger.experiment.finish()  # Lightning leaves it open
    _open.clear()


def tensorboard_logger(*, run: RunFacts, folder: Path) -> Logger:
    """TensorBoard: `tensorboard --logdir $RELPOS_RUNS`."""
    # An empty version: with None Lightning begins a new folder, version_1, each time that the run
    # is continued.
    return TensorBoardLogger(save_dir=folder, name="tensorboard", version="")


def log_figure(loggers: list[Logger], name: str, path: Path) -> None:
    """Shows a picture in Weights & Biases."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.log_image(key=name, images=[str(path)])


class Bar(pl.Callback):
    """Step, speed, time left and the newest logged loss: on a terminal a line that moves, elsewhere
    a line now and then."""

    def __init__(self, name: str, steps: int) -> None:
        self.name, self.steps = name, steps
        self.progress = display(
            "{task.description}",
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            "{task.fields[shown]}",
        )
        self.last_line = time.monotonic()

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Shows the bar, beginning at the step from which the run is continued."""
        self.progress.start()
        self.bar = self.progress.add_task(
            self.name,
            total=self.steps,
            completed=trainer.global_step,
            shown="",
        )

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: object) -> None:
        """Moves the bar; where stderr is not a terminal, prints a line when one is due."""
        shown = "  ".join(
            f"{key} {value:.4g}"
            for key, value in module.shown.items()
            if key in ("loss", "accuracy", "real_tokens_per_second", "mfu")
        )
        self.progress.update(self.bar, completed=trainer.global_step, shown=shown)
        if self.progress.disable and time.monotonic() - self.last_line > SECONDS:
            self.last_line = time.monotonic()
            say(f"{self.name}: step {trainer.global_step}/{self.steps}  {shown}")

    def teardown(self, *_: object, **__: object) -> None:
        """Leaves the terminal as it was, at the end of a training."""
        self.progress.stop()

    on_exception = teardown  # Lightning does not call `teardown` where a training stops or fails

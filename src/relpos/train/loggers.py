"""Where metrics go: always one JSON line a log step in the run's folder, and on request Weights & Biases or TensorBoard."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger

from relpos.files import write_text


class JsonLines(Logger):
    """`metrics.jsonl`: the truth about a run; other loggers are views of it.

    Args:
        path: the file; lines after `step` are cut, so that a run that goes on from a checkpoint tells each step once.
        step: the step the run goes on from.
    """

    def __init__(self, path: Path, step: int) -> None:
        super().__init__()
        self.path = path
        kept = [line for line in _whole_lines(path) if json.loads(line)["step"] <= step] if step else []
        write_text(path, "".join(kept))

    name = "jsonl"
    version = 0

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """The configuration stands in the record."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Appends one line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step} | {name: float(value) for name, value in metrics.items()}) + "\n")


def _whole_lines(path: Path) -> list[str]:
    """The lines of the file; a last one that a kill cut short is dropped."""
    if not path.exists():
        return []
    return [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("}\n")]


def wandb_logger(project: str, entity: str | None, mode: str, *, run: dict[str, Any], folder: Path) -> Logger:
    """Weights & Biases under our own run identity: group = table row, job_type = stage.

    Args:
        mode: `auto` is online where a key is at hand and offline elsewhere.
        run: `id`, `name`, `group`, `job_type` and the configuration.
        folder: where the offline files go; they are uploaded later with `wandb sync`.
    """
    import wandb
    from pytorch_lightning.loggers import WandbLogger

    if mode == "auto":
        mode = "online" if os.environ.get("WANDB_API_KEY") else "offline"
    os.environ.setdefault("WANDB_SILENT", "true")
    folder.mkdir(parents=True, exist_ok=True)
    words = {"id": run["id"], "name": run["name"], "group": run["group"], "job_type": run["job_type"], "config": run["config"]}
    settings = wandb.Settings(console="off")
    try:
        experiment = wandb.init(project=project, entity=entity, mode=mode, dir=folder, settings=settings, **words)  # type: ignore[arg-type]
    except wandb.errors.Error as error:
        print(f"relpos: Weights & Biases is out of reach ({str(error).splitlines()[0]}); logging offline", file=sys.stderr)
        experiment = wandb.init(project=project, entity=entity, mode="offline", dir=folder, settings=settings, **words)
    return WandbLogger(experiment=experiment)


def tensorboard_logger(*, run: dict[str, Any], folder: Path) -> Logger:
    """TensorBoard: `tensorboard --logdir $RELPOS_RUNS`."""
    from pytorch_lightning.loggers import TensorBoardLogger

    return TensorBoardLogger(save_dir=folder, name="tensorboard", version="")


def log_figure(loggers: list[Logger], name: str, path: Path) -> None:
    """Shows a picture in the loggers that can."""
    from pytorch_lightning.loggers import TensorBoardLogger, WandbLogger

    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.log_image(key=name, images=[str(path)])
        elif isinstance(logger, TensorBoardLogger):
            import matplotlib.image

            logger.experiment.add_image(name, matplotlib.image.imread(path)[..., :3], dataformats="HWC")

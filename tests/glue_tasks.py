"""The tasks of `conf/task`, built as a run builds them, and small GLUE folders for tests."""

from functools import cache
from pathlib import Path
from typing import cast

from hydra.utils import instantiate
from omegaconf import OmegaConf

from relpos.data.tasks import Task

CONF = Path(__file__).parents[1] / "conf" / "task"
NAMES = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli")


@cache
def task(name: str) -> Task:
    return cast(Task, instantiate(OmegaConf.load(CONF / f"{name}.yaml")))


def write(folder: Path, name: str, text: str | bytes) -> Path:
    """`folder/name` with this text, as bytes: no line end is translated."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path

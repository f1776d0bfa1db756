"""A runs folder that begins with runs of another one."""

from collections.abc import Sequence
from pathlib import Path


def link_runs(source: Path, root: Path, stages: Sequence[str] = ("toy", "tokenizer", "store")) -> None:
    """Links each run of some stages into another runs folder; what is run there later does not reach `source`."""
    for stage in stages:
        (root / stage).mkdir(parents=True, exist_ok=True)
        for run in (source / stage).iterdir():
            (root / stage / run.name).symlink_to(run.resolve())

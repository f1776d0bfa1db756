"""A runs folder that begins with runs of another one, and small pre-trainings in it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

TINY = [
    "steps=2",
    "batch=4",
    "evaluations=1",
    "data.pairs=64",
    "length=32",
    "size.layers=1",
    "size.max_positions=32",
]


def link_runs(
    source: Path, root: Path, stages: Sequence[str] = ("toy", "tokenizer", "store")
) -> None:
    """Links each run of some stages into another runs folder; what is run there later does not
    reach `source`."""
    for stage in stages:
        (root / stage).mkdir(parents=True, exist_ok=True)
        for run in (source / stage).iterdir():
            (root / stage / run.name).symlink_to(run.resolve())


def pretrained(prepared: Path, root: Path, overrides: dict[str, list[str]]) -> dict[str, Path]:
    """Name → the folder of a pre-training of two steps with these overrides, in a runs folder with
    the data of `prepared`."""
    import relpos

    link_runs(prepared, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELPOS_RUNS", str(root))
        return {
            name: relpos.run(relpos.compose("pretrain", [*TINY, *own])).path
            for name, own in overrides.items()
        }

"""`make same BASE=COMMIT`: does this tree train as that commit did? Every preset takes a few steps
in both; differences are named.

The golden values answer quickly and for the network alone; this goes through data, trainer and
optimiser, as a user's run does.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OVERRIDES = ["size=tiny", "steps=5", "batch=16", "evaluations=1", "log_every=1", "speed.threads=1"]
TUNED = [
    "task=cola",
    "position=composite",
    "size=tiny",
    "steps=5",
    "log_every=1",
    "speed.threads=1",
]
"""One fine-tuning, on a pre-training of `OVERRIDES`."""
DATA = ("toy", "tokenizer", "store")


def presets(tree: Path) -> list[str]:
    """`position=composite` and so on: the options of both groups that need nothing from the
    user."""
    files = [
        path
        for group in ("position", "conv")
        for path in sorted((tree / "conf" / group).glob("*.yaml"))
    ]
    return [
        f"{path.parent.name}={path.stem}"
        for path in files
        if "???" not in path.read_text(encoding="utf-8")
    ]


def losses(names: list[str]) -> dict[str, list[float] | str]:
    """The logged losses of each preset's run, made by the relpos that this process imports; a
    string says why there is none."""
    import relpos

    runs = {name: ("pretrain", [name, *OVERRIDES]) for name in names}
    runs["finetune"] = (
        "finetune",
        [*TUNED, *(f"pretrain.{override}" for override in OVERRIDES[1:3])],
    )
    results: dict[str, list[float] | str] = {}
    for name, (command, overrides) in runs.items():
        try:
            lines = (
                (relpos.run(relpos.compose(command, overrides)).path / "metrics.jsonl")
                .read_text(encoding="utf-8")
                .splitlines()
            )
            results[name] = [line["loss"] for line in map(json.loads, lines) if "loss" in line]
        except Exception as error:  # the other presets go on
            results[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    return results


def trained(tree: Path, runs: Path, names: list[str]) -> dict[str, list[float] | str]:
    """`losses` by the code of `tree`."""
    output = stdout(tree, runs, __file__, "--losses", *names)
    content: dict[str, list[float] | str] = json.loads(output.splitlines()[-1])
    return content


def stdout(tree: Path, runs: Path, *arguments: str) -> str:
    """What a Python prints that imports the code of `tree`."""
    environment = {
        "PYTHONPATH": str(tree / "src"),
        "RELPOS_RUNS": str(runs),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.check_output(
        [sys.executable, *arguments], env=os.environ | environment, cwd=tree, text=True
    )


def difference(before: list[float] | str, after: list[float] | str) -> str:
    """What a person is told of one preset; empty where all losses are equal to the last bit."""
    if before == after:
        return ""
    if isinstance(before, str) or isinstance(after, str) or len(before) != len(after):
        return f"{before} → {after}"
    step = next(
        step for step, (old, new) in enumerate(zip(before, after, strict=True)) if old != new
    )
    distances = [abs(new - old) for old, new in zip(before, after, strict=True)]
    largest = max(distances) if all(map(math.isfinite, distances)) else math.inf
    return f"from step {step + 1} on, by at most {largest:.2g} nats"


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A folder with the files of a commit."""
    with tempfile.TemporaryDirectory(prefix="relpos-base-") as folder:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True
        ).stdout
        subprocess.run(["tar", "-x"], input=archive, cwd=folder, check=True)
        yield Path(folder)


def compare(base: str, names: list[str] | None = None) -> int:
    """Trains at both and prints a line for each preset that differs; how many do."""
    with tempfile.TemporaryDirectory(prefix="relpos-same-") as temporary, checked_out(base) as old:
        runs = [Path(temporary, "runs-base"), Path(temporary, "runs-here")]
        both = [name for name in names or presets(ROOT) if name in presets(old)]
        before = trained(old, runs[0], both)
        runs[1].mkdir()
        for stage in DATA:  # where their identities have not changed, they are found
            (runs[1] / stage).symlink_to(runs[0] / stage)
        after = trained(ROOT, runs[1], both)
    differing = {name: line for name in before if (line := difference(before[name], after[name]))}
    for name, line in differing.items():
        print(f"{name}: {line}")
    print(f"{len(before) - len(differing)} of {len(before)} train as at {base}, to the last bit")
    return len(differing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("base", nargs="?", help="a commit")
    parser.add_argument(
        "--only", nargs="+", metavar="PRESET", help="as in position=composite conv=depthwise"
    )
    parser.add_argument("--losses", nargs="+", metavar="PRESET", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.losses:
        print(json.dumps(losses(given.losses)))
        return 0
    if not given.base:
        parser.error("name a commit: make same BASE=COMMIT")
    return 1 if compare(given.base, given.only) else 0


if __name__ == "__main__":
    sys.exit(main())

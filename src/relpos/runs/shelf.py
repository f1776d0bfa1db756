"""What lies below `$RELPOS_RUNS`: finished runs of a stage, what they logged, and which of them may
be compared.

Whoever reads many runs finds them here, so that all agree on which runs count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from relpos.errors import RelposError, refuse_unknown, say
from relpos.readers import (
    Plain,
    besides,
    check_recorded,
    fitted,
    json_lines,
    read_bytes,
    recorded_checksums,
)
from relpos.runs.run import Record, identity_of, placed, read_record, runs_root, stage_class

What = TypeVar("What", bound=Hashable)
Group = TypeVar("Group", bound=Hashable)
LOGGED = "metrics.jsonl"
"""In a run's folder: one line for each logged step, which `relpos.train.loggers.JsonLines`
writes."""
SNAPSHOTS = "snapshots"
"""In a run's folder: the weights at some steps."""
END = 100
"""Per cent of the steps at the end of a pre-training."""
LOG = "log.txt"
"""In a run's folder: what it has printed."""
TAIL = 4096
"""Bytes at the end of `LOGGED` that hold its last line."""
DISTINGUISHING = ("seed", "position", "conv", "sources")
"""Keys of a pre-training's meaning in which the runs of one scale may differ."""


def run_folders(stage: str) -> list[Path]:
    """The folders of a stage (`*` for all) that hold a record, whatever it says, sorted by name."""
    return sorted(path.parent for path in runs_root().glob(f"{stage}/*/record.json"))


def finished(stage: str) -> Iterator[tuple[Path, Record]]:
    """Folder and record of each finished run of a stage, sorted by name.

    A damaged record is named on stderr and left out: it is no reason to stop for those who read
    other runs.
    """
    for folder in run_folders(stage):
        try:
            record = read_record(folder)
        except RelposError as error:
            say(f"relpos: {error}")
            continue
        # Unfinished runs change yet, and a figure made of them would change by itself.
        if record.state == "finished":
            yield folder, record


def snapshots(run: Path) -> list[int]:
    """The per cents of the steps at which a pre-training kept its weights."""
    files = (run / SNAPSHOTS).glob("*.safetensors")
    return sorted(int(file.stem) for file in files if file.stem.isdigit())


def snapshot(run: Path, share: int) -> Path:
    """The file with the weights of a pre-training at so many per cent of its steps, whether it is
    there or not."""
    return run / SNAPSHOTS / f"{share}.safetensors"


def run_of(path: Path) -> Path:
    """The folder of the run whose network lies there: RUN, RUN/model, or a snapshot's file; of any
    other place the place itself."""
    if path.parent.name == SNAPSHOTS:
        return path.parent.parent
    return path.parent if path.name == "model" else path


def inputs_of(folder: Path) -> dict[str, Path]:
    """Name of an input of a run → the folder of the run that made it, where there is one."""
    places = read_record(folder).inputs.items()
    folders = {name: run_of(placed(folder, place)) for name, place in places}
    return {name: needed for name, needed in folders.items() if needed.exists()}


def made_from(folder: Path, stage: str) -> Path | None:
    """The folder of the run of a stage, such as `store`, that a run was made from: its own where it
    is of this stage; None where records do not say."""
    passed = set()
    while folder not in passed:
        if folder.parent.name == stage:
            return folder
        passed.add(folder)
        needed = inputs_of(folder)
        folder = next(
            (needed[name] for name in (stage, "store", "start") if name in needed), folder
        )
    return None


def is_current(record: Plain) -> bool:
    """Whether today's code gives a run of this meaning and these inputs the identity in its
    record."""
    try:
        return (
            identity_of(stage_class(record["stage"]), record["meaning"], input_identities(record))
            == record["identity"]
        )
    except (KeyError, RelposError):  # a damaged record is nobody's
        return False


def input_identities(record: Plain) -> dict[str, str]:
    """Name of an input → its identity, of the run of a record; RelposError where the record is
    damaged."""
    inputs = fitted(record["inputs"], dict[str, str])
    # From the folders' names: the records of stores may be elsewhere.
    return {name: Path(folder).name.rpartition("-")[2] for name, folder in inputs.items()}


def logged(run: Path) -> list[Plain]:
    """What a run has logged, a dictionary for each line, in the order of its steps; empty where it
    has logged nothing.

    Raises:
        RelposError: a line is damaged, and file and line are named; or the run is finished, and the
            file another one since, or gone.
    """
    path = run / LOGGED
    if path.exists() or LOGGED in recorded_checksums(run):
        check_recorded(path)
    lines = json_lines(path)
    for number, line in enumerate(lines, 1):
        step, loss = line.get("step"), line.get("heldout_loss", 0.0)
        if not isinstance(step, int) or not isinstance(loss, int | float):
            raise RelposError(f"{path}, line {number}: damaged: a step and numbers are expected")
    return lines


def newest(run: Path, key: str = "step") -> Plain:
    """The last of the lines with this key that a run has logged; empty where there is none. Only
    the end of the file is read."""
    try:
        return [line for line in json_lines(run / LOGGED, TAIL) if key in line][-1]
    except (
        RelposError,
        IndexError,
    ):  # those who watch a run go on watching it, whatever a crash left in the file
        return {}


def last_lines(path: Path) -> list[str]:
    """The last five lines of a log that are not blank, from its last 8 KiB; none where there is no
    log."""
    try:
        text = read_bytes(path, end=8192).decode("utf-8", errors="replace")
    except RelposError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-5:]


def figure(run: Path, metric: str) -> float:
    """The final figure of this name; with a minus sign in front, as in `-rte`, its negative, so
    that the least is the best.

    Raises:
        RelposError: the run has none of this name.
    """
    values = read_record(run).figures
    value = values[checked_metric(metric, values)]
    return -value if metric.startswith("-") else value


def checked_metric(metric: str, names: Collection[str]) -> str:
    """The name of the figure that `metric` names, which must be one of `names`.

    Raises:
        RelposError: there is no such figure; the line has the nearest name.
    """
    name = metric.removeprefix("-")
    refuse_unknown(f"metric={metric}: the run has no figure", name, names)
    return name


def protocol(*meanings: Plain, without: Collection[str] = ("seed",)) -> str:
    """Everything in the meanings of some runs except a few keys, as text: runs of one protocol
    differ in these keys alone.

    Args:
        meanings: of a run; or of a fine-tuning and the fine-tunings that it started from.
        without: the keys.
    """
    # As text, so that it can be counted, compared and be a key.
    return json.dumps([besides(meaning, without) for meaning in meanings], sort_keys=True)


def leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    """Dotted key → value for all that is in a group of keys, however deep; a list is a value.

    >>> dict(leaves("recipe", {"lr": 0.1, "betas": {"first": 0.9}}))
    {'recipe.lr': 0.1, 'recipe.betas.first': 0.9}
    """
    if not isinstance(value, Mapping):
        yield path, value
    else:
        for key, part in value.items():
            yield from leaves(f"{path}.{key}", part)


def common(meaning: Plain) -> Plain:
    """What the rows of one scale have in common in the meaning of a pre-training.

    It is everything but seed, scheme and convolution, and `position_lr` and `conv_lr`, which are
    tuned for each kind of scheme.
    """
    shared = besides(meaning, DISTINGUISHING)
    if "recipe" in shared:
        shared["recipe"] = besides(shared["recipe"], ("position_lr", "conv_lr"))
    return shared


def most_shared(
    runs: Iterable[tuple[What, str, Group]],
    groups: Collection[Group],
) -> dict[What, str]:
    """The protocol of each thing that was measured, in which it is compared: runs of several
    protocols are never mixed.

    It is the protocol with most runs in the group that has the fewest, so that a group with many
    runs does not decide for one that has few. Of equally good ones the first counts. What no
    protocol gives for all groups is left out.

    Args:
        runs: what was measured, by which protocol, and in which group, for each run.
        groups: those that are compared.

    >>> most_shared([("RTE", "long", "a"), ("RTE", "short", "a"), ("RTE", "short", "b")], groups="ab")
    {'RTE': 'short'}
    """
    counts: dict[What, dict[str, Counter[Group]]] = {}
    for what, way, group in runs:
        counts.setdefault(what, {}).setdefault(way, Counter())[group] += 1
    fewest = {
        what: {way: min(count[group] for group in groups) for way, count in ways.items()}
        for what, ways in counts.items()
    }
    # `max` gives the first of equals, and a dictionary keeps the order of the runs.
    return {
        what: max(ways, key=ways.__getitem__) for what, ways in fewest.items() if any(ways.values())
    }

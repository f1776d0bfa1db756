"""Runs that a user names, as rows of a table: finished pre-trainings, and the fine-tunings that all of them have."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from relpos.errors import RelposError
from relpos.measures.kept import END, kept
from relpos.measures.measure import Results, measures
from relpos.runs.run import Run, read_record, runs_root
from relpos.runs.shelf import finished, most_shared, protocol
from relpos.tables.columns import rows_of
from relpos.tables.named_runs import labels, named_row
from relpos.tables.order_columns import order_columns
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.row import Column, Row


@dataclass(frozen=True)
class RecordedRun(Run):
    """A run as its folder describes it, whatever code and configuration made it."""

    @cached_property
    def identity(self) -> str:
        """The identity in its record, which earlier code may have computed in another way."""
        return str(self.record.get("identity"))

    @classmethod
    def of(cls, folder: Path) -> RecordedRun:
        """The run of a folder that has a record."""
        record = read_record(folder)
        config: Any = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
        return cls(record["stage"], folder.resolve().name, record["meaning"], config, folder=str(folder.resolve()))

    @property
    def text(self) -> str:
        """The name of the token store that it read."""
        return Path(self.record.get("inputs", {}).get("store", "")).name


@dataclass(frozen=True)
class Subject:
    """What is compared under one name: a pre-training, or the pre-trainings of a table's row."""

    name: str
    pretrainings: list[RecordedRun]

    @property
    def by_seed(self) -> dict[int, RecordedRun]:
        """Seed → pre-training."""
        return {int(run.meaning["seed"]): run for run in self.pretrainings}


def subjects_of(names: Sequence[str]) -> list[Subject]:
    """The subjects that folders of pre-trainings and `TABLE:ROW` name; several may get the same name, see `differing.titled`.

    Raises:
        RelposError: fewer than two are named, one is named twice, or one is not a finished pre-training.
    """
    if len(names) < 2:
        raise RelposError(f"network={','.join(names)}: two or more are compared, as in: relpos compare FOLDER TABLE:ROW")
    rows = [named_row(name) for name in names]
    titles = [labels([Path(name).expanduser()])[0] if row is None else row.name for name, row in zip(names, rows, strict=True)]
    subjects = [Subject(title, _pretrainings(name, row)) for title, name, row in zip(titles, names, rows, strict=True)]
    known: dict[tuple[str, ...], str] = {}
    for name, subject in zip(names, subjects, strict=True):
        identities = tuple(run.identity for run in subject.pretrainings)
        if identities in known:
            raise RelposError(f"network={name}: the same as {known[identities]}; runs that differ are compared")
        known[identities] = name
    return subjects


def _pretrainings(name: str, row: Row | None) -> list[RecordedRun]:
    folders = [Path(name).expanduser()] if row is None else [runs_root() / run.path for run in row.runs if run.stage == "pretrain"]
    if not folders:
        raise RelposError(f"network={name}: this row has no pre-training")
    for folder in folders:
        record = read_record(folder)
        if not record:
            raise RelposError(f"network={name}: there is no run in {folder} (its record.json is missing)")
        if record.get("stage") != "pretrain":
            start = (record.get("inputs") or {}).get("start")
            hint = f": {start}" if start else ""
            raise RelposError(f"network={name}: a pre-training is expected, not a run of stage {record.get('stage')}{hint}")
        if record.get("state") != "finished":
            raise RelposError(f"network={name}: {folder.resolve().name} is not finished (its record says {record.get('state')})")
    return [RecordedRun.of(folder) for folder in folders]


def compared_rows(subjects: Sequence[Subject]) -> list[Row]:
    """A row for each subject, with the columns that all of them have.

    These are fine-tunings whose configurations differ in the seed alone, and figures about order that were measured before, in the
    same way for all.
    """
    tunings = _shared_tunings(subjects)
    planned = [PlannedRow(subject.name, [], list(subject.pretrainings), tunings[subject.name]) for subject in subjects]
    order = _order(subjects)
    rows = []
    for subject, row in zip(subjects, rows_of(planned), strict=True):
        names = [column.name for measure in measures() if measure.name in order[subject.name] for column in measure.at_end]
        by_seed = _by_seed(order[subject.name])
        columns = order_columns(names, by_seed, ["finished"] * len(subject.pretrainings))
        known: dict[str, Column] = {name: column for name, column in columns.items() if column.values}
        rows.append(replace(row, columns=known | row.columns))
    return rows


def _shared_tunings(subjects: Sequence[Subject]) -> dict[str, list[Tuning]]:
    """Subject → its fine-tunings with the tasks and dials that all subjects were fine-tuned with.

    If a task was fine-tuned with several choices of dials, the choice with the most runs is taken.
    """
    starts = {str(run.path.resolve()): (subject.name, seed) for subject in subjects for seed, run in subject.by_seed.items()}
    found: list[tuple[str, str, str, Tuning]] = []
    for folder, record in finished("finetune"):
        try:
            start, between = _start(record)
        except RelposError as error:  # the damaged record of some other run is no reason to stop
            print(f"relpos: {error}", file=sys.stderr)
            continue
        if start in starts:
            name, seed = starts[start]
            task, way = str(record["meaning"]["task"]["name"]), protocol(record["meaning"], {"between": between})
            found.append((task, way, name, Tuning(task, seed, int(record["meaning"]["seed"]), RecordedRun.of(folder))))
    shared = most_shared([entry[:3] for entry in found], [subject.name for subject in subjects])
    return {
        subject.name: [tuning for task in shared for *key, tuning in found if key == [task, shared[task], subject.name]]
        for subject in subjects
    }


def _start(record: dict[str, Any]) -> tuple[str, list[str]]:
    """The pre-training that a fine-tuning goes back to, and the tasks between the two."""
    between: list[str] = []
    while (start := (record.get("inputs") or {}).get("start")) and record.get("stage") == "finetune":
        folder = Path(start).parent if Path(start).name == "model" else Path(start)  # the user may have named either
        record = read_record(folder)
        if record.get("stage") != "finetune":
            return str(folder.resolve()), between
        between.append(str(record["meaning"]["task"]["name"]))
    return "", between


def _order(subjects: Sequence[Subject]) -> dict[str, dict[str, dict[int, Results]]]:
    """Subject → measure → seed → figures measured before in the same way for all; of several ways, the one with most examples."""
    order: dict[str, dict[str, dict[int, Results]]] = {subject.name: {} for subject in subjects}
    runs = {(subject.name, seed): run.path for subject in subjects for seed, run in subject.by_seed.items()}
    found = [
        (measure, protocol(entry.meaning, without=()), run, entry)
        for measure in (measure.name for measure in measures() if measure.at_end)
        for run, folder in runs.items()
        for entry in kept(folder, measure)
        if entry.share == END
    ]
    found.sort(key=lambda entry: (-entry[3].meaning.get("examples", 0), entry[1]))
    shared = most_shared([entry[:3] for entry in found], runs)
    for measure, way, (name, seed), entry in found:
        if shared.get(measure) == way:
            order[name].setdefault(measure, {})[seed] = entry.results
    return order


def _by_seed(order: dict[str, dict[int, Results]]) -> dict[int, Results]:
    merged: dict[int, Results] = defaultdict(dict)
    for by_seed in order.values():
        for seed, results in by_seed.items():
            merged[seed] |= results
    return merged

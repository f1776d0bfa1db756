"""Runs that a user names, as rows of a table: finished pre-trainings, and the fine-tunings that all of them have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from relpos.errors import RelposError, say
from relpos.measures.kept import kept
from relpos.measures.measure import Results, measures
from relpos.runs.networks import labels, networks_of
from relpos.runs.run import Run, read_record, recorded
from relpos.runs.shelf import END, finished, most_shared, protocol
from relpos.tables.columns import rows_of
from relpos.tables.order_columns import order_columns
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.row import Column, Row


def by_seed(row: PlannedRow) -> dict[int, Run]:
    """Seed → pre-training."""
    return {int(run.meaning["seed"]): run for run in row.pretrainings}


def text_of(run: Run) -> str:
    """The name of the token store that a run of a folder read."""
    return Path(run.record.get("inputs", {}).get("store", "")).name


def subjects_of(names: Sequence[str]) -> list[PlannedRow]:
    """What is compared: under each name a pre-training, or those of a table's row. Several may have the same name, see
    `differing.titled`.

    Raises:
        RelposError: fewer than two are named, one is named twice, or one is not a finished pre-training.
    """
    if len(names) < 2:
        raise RelposError(f"network={','.join(names)}: two or more are compared, as in: relpos compare FOLDER TABLE:ROW")
    subjects = [_subject(name) for name in names]
    known: dict[tuple[str, ...], str] = {}
    for name, subject in zip(names, subjects, strict=True):
        # By identity and not by name: a run may be named by its folder and by its table.
        identities = tuple(run.identity for run in subject.pretrainings)
        if identities in known:
            raise RelposError(f"network={name}: the same as {known[identities]}; runs that differ are compared")
        known[identities] = name
    return subjects


def _subject(name: str) -> PlannedRow:
    networks = networks_of(name)
    for network in networks:
        network.refuse_classifier()
        if network.run is None or network.is_snapshot:
            raise RelposError(f"network={name}: the folder of a pre-training is expected, or TABLE:ROW")
    title = networks[0].row or labels(networks)[0]
    return PlannedRow(title, [], [recorded(network.run) for network in networks if network.run], [])


def compared_rows(subjects: Sequence[PlannedRow]) -> list[Row]:
    """A row for each subject, with the columns that all of them have.

    These are fine-tunings whose configurations differ in the seed alone, and figures about order that were measured before, in the
    same way for all.
    """
    tunings = _shared_tunings(subjects)
    planned = [replace(subject, tunings=tunings[subject.name]) for subject in subjects]
    order = _order(subjects)
    rows = []
    for subject, row in zip(subjects, rows_of(planned), strict=True):
        names = [column.name for measure in measures() if measure.name in order[subject.name] for column in measure.at_end]
        columns = order_columns(names, _by_seed(order[subject.name]), ["finished"] * len(subject.pretrainings))
        known: dict[str, Column] = {name: column for name, column in columns.items() if column.values}
        rows.append(replace(row, columns=known | row.columns))
    return rows


def _shared_tunings(subjects: Sequence[PlannedRow]) -> dict[str, list[Tuning]]:
    """Subject → its fine-tunings with the tasks and dials that all subjects were fine-tuned with.

    If a task was fine-tuned with several choices of dials, the choice with the most runs is taken.
    """
    starts = {str(run.path.resolve()): (subject.name, seed) for subject in subjects for seed, run in by_seed(subject).items()}
    found: list[tuple[str, str, str, Tuning]] = []
    for folder, record in finished("finetune"):
        try:
            start, between = _start(record)
        except RelposError as error:  # the damaged record of some other run is no reason to stop
            say(f"relpos: {error}")
            continue
        if start in starts:
            name, seed = starts[start]
            task, way = str(record["meaning"]["task"]["name"]), protocol(record["meaning"], {"between": between})
            found.append((task, way, name, Tuning(task, seed, int(record["meaning"]["seed"]), recorded(folder))))
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


def _order(subjects: Sequence[PlannedRow]) -> dict[str, dict[str, dict[int, Results]]]:
    """Subject → measure → seed → figures measured before in the same way for all; of several ways, the one with most examples."""
    order: dict[str, dict[str, dict[int, Results]]] = {subject.name: {} for subject in subjects}
    runs = {(subject.name, seed): run.path for subject in subjects for seed, run in by_seed(subject).items()}
    found = [
        (measure, protocol(entry.meaning, without=()), run, entry)
        for measure in (measure.name for measure in measures() if measure.at_end)
        for run, folder in runs.items()
        for entry in kept(folder, measure)
        if entry.share == END
    ]
    # The way with most examples first; `most_shared` keeps the order where several are shared alike.
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

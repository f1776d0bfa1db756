"""Runs that a user names, as rows of a table: finished pre-trainings, and the fine-tunings that all of them have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from relpos.errors import RelposError
from relpos.measures.measure import measures
from relpos.results.values import Value, of_pretraining, read
from relpos.runs.networks import labels, networks_of
from relpos.runs.run import Run, recorded
from relpos.runs.shelf import END, most_shared, protocol
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.row import Row
from relpos.tables.rows import order_columns, rows_of


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
    same way for all. Of several such ways it is the one with the most runs, and of figures then that with the most examples.
    """
    names = {run.path.name: subject.name for subject in subjects for run in subject.pretrainings}
    seeds = {run.path.name: int(run.meaning["seed"]) for subject in subjects for run in subject.pretrainings}
    tuned = [found for each in read(measured=()) if each.way and (found := _of_run(each, seeds))]
    used = most_shared(((each.column, each.way, names[each.origin]) for each in tuned), set(names.values()))
    tunings = {each.run: each for each in tuned if used.get(each.column) == each.way}
    measured = _shared_figures([run for subject in subjects for run in subject.pretrainings])
    rows = []
    for subject in subjects:
        own = [_tuning(each) for each in tunings.values() if names[each.origin] == subject.name]
        folders = {run.path for run in subject.pretrainings}
        figures = [each for each in measured if each.run in folders]
        columns = order_columns(dict.fromkeys(each.column for each in figures), figures, ["finished"] * len(subject.pretrainings))
        rows += [replace(row, columns=columns | row.columns) for row in rows_of([replace(subject, tunings=own)])]
    return rows


def _of_run(each: Value, seeds: Mapping[str, int]) -> Value | None:
    """A score of a fine-tuning of one of these pre-trainings, which its user may have named by the folder of its model."""
    start = Path(each.origin)
    origin = start.parent.name if start.name == "model" else start.name
    if each.stage != "finetune" or origin not in seeds:
        return None
    # Where the pre-training is named by its model, the way says nothing of what was changed in it.
    way = protocol({"of": each.way, "change": each.scheme if each.pretrain_seed is None else ""})
    return replace(each, origin=origin, pretrain_seed=seeds[origin], way=way)


def _tuning(of_run: Value) -> Tuning:
    run = recorded(of_run.run)
    return Tuning(str(run.meaning["task"]["name"]), of_run.pretrain_seed or 0, of_run.seed, run)


def _shared_figures(runs: Sequence[Run]) -> list[Value]:
    """What was measured of some pre-trainings in the same way for all of them."""
    asked = [measure.name for measure in measures() if measure.at_end]
    known = [each for run in runs for each in of_pretraining(run.path, run.record, asked) if each.figure and each.percent == END]
    # The way with most examples first: `most_shared` keeps the order where several are shared alike.
    known.sort(key=lambda each: (-(each.examples or 0), each.way))
    shared = most_shared(((each.column, each.way, each.run) for each in known), {run.path for run in runs})
    # A column says how many examples or pairs its figures are of.
    return [replace(each, examples=each.figure.n) for each in known if each.figure and shared.get(each.column) == each.way]

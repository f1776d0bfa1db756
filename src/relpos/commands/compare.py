"""`relpos compare`: a table of named runs: finished pre-trainings, and the fine-tunings that all of
them have.

Above the table stand the settings in which they differ, as `position=fixed → composite`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from glob import glob, has_magic
from itertools import chain
from pathlib import Path
from statistics import fmean

from relpos.errors import RelposError, say
from relpos.measures.measure import measures
from relpos.model.architecture import class_of
from relpos.places import expanded
from relpos.ranges import Names, shown
from relpos.readers import digest
from relpos.results.gain import gain
from relpos.results.scale import Scale
from relpos.results.values import Value, pretraining_values, read, select, shared_ways
from relpos.runs.networks import labels, networks_of
from relpos.runs.run import Run, recorded, runs_root
from relpos.runs.shelf import END, SNAPSHOTS, leaves, protocol, run_of
from relpos.tables.comparison import with_comparisons
from relpos.tables.experiment import Experiment
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.render import pictures, text
from relpos.tables.render.cells import MISSING, SideTable, with_minus
from relpos.tables.render.view import view_of
from relpos.tables.rows import order_columns, rows_of
from relpos.tables.table import Row, Table

GROUPS = ("position", "conv")
EXAMPLES = ("text", "packing", "length")
"""Keys that define a held-out example."""
LOSS = "loss"


def compare(network: Names) -> str:
    """Writes a table of the runs below `$RELPOS_RUNS/compare`, prints it, and returns its folder.

    The first run is the baseline with which the losses and the columns of the others are compared.

    Raises:
        RelposError: fewer than two rows are named, or one is not a finished pre-training.
    """
    subjects = titled(subjects_of(network))
    names = [subject.name for subject in subjects]
    differing = differences(subjects)
    words = [f"{key}={' → '.join(values)}" for key, values in differing.items()]
    question = f"They differ in: {', '.join(words) or 'nothing that results depend on'}."
    for place, subject in enumerate(subjects):
        overrides = [
            f"{key}={values[place]}"
            for key, values in differing.items()
            if values[place] != MISSING
        ]
        subjects[place] = replace(subject, overrides=overrides)
    values = shared_values(subjects)
    # In place of an experiment file, which named networks do not have.
    experiment = Experiment(Path(), question, {}, [], baseline=names[:1])
    rows = [_row(subject, values[subject.name]) for subject in subjects]
    rows = with_comparisons(rows, experiment, {})
    side_tables = []
    # Losses on different text cannot be subtracted; columns and curves are compared all the same.
    if unlike := [key for key in EXAMPLES if key in differing]:
        question += f" Their held-out losses are not compared: {', '.join(unlike)} differ."
    else:
        side_tables.append(losses_table(values))
    view = view_of(Table(" and ".join(names), question, rows), side_tables)
    content = [[run.identity for run in subject.pretrainings] for subject in subjects]
    name = re.sub(r"[^\w.=-]+", "-", "-".join(names))
    # File systems allow names of 255 bytes; the hash tells cut names apart.
    folder = runs_root() / "compare" / f"{name[:80]}-{digest(content)}"
    text.write(folder, view)
    pictures.draw_losses(folder / "curves.png", rows)
    text.terminal(view)
    say(f"one page: {folder / 'table.html'}")
    return str(folder)


def seed_of(run: Run) -> int:
    return int(run.meaning["seed"])


def input_name(run: Run, name: str) -> str:
    """The place of an input as the run's record has it; empty without such an input."""
    return run.record.inputs.get(name, "")


def subjects_of(names: Sequence[str]) -> list[PlannedRow]:
    """The compared rows: pre-trainings that differ in their seed alone. Rows may have the same
    name, see `titled`.

    Args:
        names: of runs and of rows of tables, or patterns of the names of runs (`pretrain/sine-*`).

    Raises:
        RelposError: fewer than two rows are named, one run is named twice, or one is not a finished
            pre-training.
    """
    rows: dict[str, PlannedRow] = {}
    name_of: dict[str, str] = {}
    for name in chain.from_iterable(map(_matches, names)):
        subject = _subject(name)
        first = subject.pretrainings[0]
        # By content and not by name, because a run may be named by its folder and by its table.
        text_name = Path(input_name(first, "store")).name
        alike = protocol(first.meaning, {"text": text_name, "start": input_name(first, "start")})
        row = rows.setdefault(alike, replace(subject, pretrainings=[]))
        seeds = [seed_of(run) for run in row.pretrainings]
        for run in subject.pretrainings:
            if seed_of(run) in seeds:
                raise RelposError(
                    f"network={name}: the same as {name_of[alike]}; runs that differ are compared"
                )
            row.pretrainings.append(run)
        name_of[alike] = name
    if len(rows) < 2:
        is_one_row = any(len(row.pretrainings) > 1 for row in rows.values())
        same = "; these differ in their seed alone" if is_one_row else ""
        raise RelposError(
            f"network={','.join(names)}: two or more are compared, as in: relpos "
            f"compare FOLDER TABLE:ROW{same}"
        )
    return list(rows.values())


def _matches(name: str) -> list[str]:
    """The runs whose folders match a pattern, from here or below $RELPOS_RUNS; a name that is no
    pattern stays as it is."""
    place = str(expanded(name))
    if not has_magic(place) or Path(place).exists():
        return [name]
    matches = glob(place) or [
        str(runs_root() / match) for match in glob(place, root_dir=runs_root())
    ]
    if not matches:
        raise RelposError(f"network={name}: no run has a name like this, here or in {runs_root()}")
    return sorted(matches)


def _subject(name: str) -> PlannedRow:
    networks = networks_of(name)
    for network in networks:
        network.refuse_classifier()
        if network.run is None or network.is_snapshot:
            raise RelposError(
                f"network={name}: the folder of a pre-training is expected, or TABLE:ROW"
            )
    title = networks[0].row or labels(networks)[0]
    return PlannedRow(title, [], [recorded(network.run) for network in networks if network.run], [])


def shared_values(subjects: Sequence[PlannedRow]) -> dict[str, list[Value]]:
    """Subject → its numbers in the columns that all of them have.

    The numbers come from the pre-trainings' records, from fine-tunings whose configurations differ
    in the seed alone, and from kept figures about order, measured in the same way for all. Of
    several such ways the one with the most runs counts, then the one with the most examples.
    """
    names = [measure.name for measure in measures() if measure.at_end]
    seeds: dict[str, int] = {}
    subject_of: dict[str, str] = {}
    values = []
    for subject in subjects:
        for run in subject.pretrainings:
            seeds[run.path.name], subject_of[run.path.name] = seed_of(run), subject.name
            values += select(pretraining_values(run.path, run.record, names), percent=END)
    values += filter(None, (_tuned(value, seeds) for value in read(measured=()) if value.way))
    result: dict[str, list[Value]] = {subject.name: [] for subject in subjects}
    ways = shared_ways(values, lambda value: subject_of[value.origin], result)
    for value in values:
        if ways.get(value.column) == value.way:
            result[subject_of[value.origin]].append(value)
    return result


def _row(subject: PlannedRow, values: Sequence[Value]) -> Row:
    tunings = []
    for value in {value.run: value for value in values if value.is_tuning}.values():
        run = recorded(value.run)
        task = run.meaning["task"]["name"]
        tunings.append(Tuning(task, value.pretrain_seed or 0, value.seed, run))
    [row] = rows_of([replace(subject, tunings=tunings)])
    at_end = [column for measure in measures() for column in measure.at_end]
    names = {value.column for value in values}
    states = ["finished"] * len(subject.pretrainings)
    columns = order_columns([kind for kind in at_end if kind.name in names], values, states)
    return replace(row, columns=columns | row.columns)


def _tuned(value: Value, seeds: Mapping[str, int]) -> Value | None:
    """A value of a fine-tuning with the pre-training that it started from, by name; None if that is
    not compared.

    A fine-tuning may name its pre-training by the folder of the model.
    """
    origin = run_of(Path(value.origin)).name
    if not value.is_tuning or origin not in seeds:
        return None
    # For a pre-training named by its model, the way does not contain the change of the network.
    change = value.scheme if value.pretrain_seed is None else ""
    way = protocol({"of": value.way, "change": change})
    return replace(value, origin=origin, pretrain_seed=seeds[origin], way=way)


def differences(subjects: Sequence[PlannedRow]) -> dict[str, list[str]]:
    """Key → its value in each subject, for the keys in which they are not all equal; `—` for a
    subject without the key.

    Dials of a scheme are compared among the subjects that have them: a scheme without such a dial
    differs in its name.
    """
    described = list(map(_described, subjects))
    result = {}
    for key in dict.fromkeys(chain(*described)):
        values = [settings.get(key, MISSING) for settings in described]
        is_dial = key.startswith(tuple(f"{group}." for group in GROUPS))
        if len({*values} - ({MISSING} if is_dial else set())) > 1:
            result[key] = values
    return result


def titled(subjects: Sequence[PlannedRow]) -> list[PlannedRow]:
    """The subjects under different names: to a name that several have, the settings in which these
    differ are added."""
    result = []
    for subject in subjects:
        # A name that is there once stays as it is, because a figure is easier to read with short
        # names.
        same = [namesake for namesake in subjects if namesake.name == subject.name]
        words = [subject.name]
        for key, values in differences(same).items():
            if key != "seed":
                words.append(f"{key.rpartition('.')[2]}={values[same.index(subject)]}")
        result.append(replace(subject, name=" ".join(words)))
    return result


def _described(subject: PlannedRow) -> dict[str, str]:
    """Key → value of everything that the subject's results depend on; `seed` lists the seeds of its
    pre-trainings."""
    run = subject.pretrainings[0]
    settings = {}
    for group, content in run.meaning.items():
        if group in GROUPS:
            settings[group] = class_of(content)
        for key, value in leaves(group, content):
            if not key.endswith(("._target_", "._partial_")):
                # Hashes are cut.
                word = re.sub(r"\b([0-9a-f]{7})[0-9a-f]{25,}\b", r"\1", shown(value))
                settings.setdefault(key, word)
    # The meaning does not name the network that was trained further.
    if start := input_name(run, "start"):
        place = Path(start)
        settings["start"] = run_of(place).name
        if place.parent.name == SNAPSHOTS:
            settings["start"] += f" at {place.stem} %"
    seeds = sorted(map(seed_of, subject.pretrainings))
    return settings | {
        "seed": ",".join(map(str, seeds)),
        "text": Path(input_name(run, "store")).name,
    }


def losses_table(values: Mapping[str, Sequence[Value]]) -> SideTable:
    """The held-out losses of the subjects, with their gains over the first subject's, as claims
    word them."""
    scale = Scale()
    scale.add(values)
    first = next(iter(values))
    lines = []
    for name, columns in scale.values.items():
        loss = -fmean(value.value for value in columns[LOSS])
        gained = gain(scale, (name, first), LOSS)
        text = MISSING
        if gained and name != first:
            text = with_minus(gained.text)
        lines.append((name, [f"{loss:.4f}", text]))
    return SideTable("held-out loss", ["nats per token", f"less than {first}"], lines)

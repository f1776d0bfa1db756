"""`relpos compare`: a table of named runs: finished pre-trainings, and the fine-tunings that all of
them have.

Above the table stand the settings in which they differ, as `position=fixed → composite`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from glob import glob, has_magic
from itertools import chain
from math import floor, log10
from pathlib import Path
from statistics import fmean

import numpy as np

from relpos.analysis.shuffle_gap import gaps
from relpos.data.store import Store
from relpos.errors import RelposError, say
from relpos.files import digest
from relpos.measures.measure import Figure, measures
from relpos.model.architecture import class_of
from relpos.places import expanded
from relpos.progress import bar
from relpos.ranges import Count, Names, shown
from relpos.readers import RECORD
from relpos.results.gain import over_texts
from relpos.results.statistics import Difference, paired
from relpos.results.values import Value, pretraining_values, read, select, shared_ways
from relpos.runs.networks import labels, networks_of, of_run
from relpos.runs.run import Run, input_of, recorded, runs_root
from relpos.runs.shelf import END, SNAPSHOTS, leaves, protocol, run_of
from relpos.tables.comparison import with_comparisons
from relpos.tables.experiment import Experiment
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.render import pictures, text
from relpos.tables.render.cells import MISSING, SideTable, signed
from relpos.tables.render.view import view_of
from relpos.tables.rows import order_columns, rows_of
from relpos.tables.table import Row, Table
from relpos.train.weights import WEIGHTS

GROUPS = ("position", "conv")
SHARED = ("packing", "length")
"""Keys of a pre-training that define a held-out example, together with its text."""


def compare(network: Names, examples: Count) -> str:
    """Writes a table of the runs below `$RELPOS_RUNS/compare`, prints it, and returns its folder.

    The first run is the baseline with which the losses and the columns of the others are compared.

    Raises:
        RelposError: fewer than two rows are named, one is not a finished pre-training, or its
            scheme is not trusted.
    """
    subjects = titled(subjects_of(network))
    differing = differences(subjects)
    words = [f"{key}={' → '.join(values)}" for key, values in differing.items()]
    question = f"They differ in: {', '.join(words) or 'nothing that results depend on'}."
    for place, subject in enumerate(subjects):
        typed = [(key, values[place]) for key, values in differing.items()]
        overrides = [f"{key}={value}" for key, value in typed if value != MISSING]
        subjects[place] = replace(subject, overrides=overrides)
    rows = compared_rows(subjects)
    # In place of an experiment file, which named networks do not have.
    experiment = Experiment(Path(), question, {}, [], baseline=[subjects[0].name])
    rows = with_comparisons(rows, experiment, {})
    side_tables = []
    # Losses on different text cannot be subtracted; columns and curves are compared all the same.
    if reason := why_not(subjects):
        question += f" Their held-out losses are not compared: {reason}."
    else:
        runs = sum(len(subject.pretrainings) for subject in subjects)
        with bar("held-out text", examples * runs) as advance:
            side_tables.append(losses_table(subjects, examples, advance))
    name = " and ".join(subject.name for subject in subjects)
    view = view_of(Table(name, question, rows), side_tables)
    folder = runs_root() / "compare" / _folder_name(subjects, examples)
    text.write(folder, view)
    pictures.draw_losses(folder / "curves.png", rows)
    text.terminal(view)
    say(f"one page: {folder / 'table.html'}")
    return str(folder)


def seed_of(run: Run) -> int:
    return int(run.meaning["seed"])


def input_name(run: Run, name: str) -> str:
    """The place of an input as the run's record has it; empty where it has none of this name."""
    return str(run.record["inputs"].get(name, ""))


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


def compared_rows(subjects: Sequence[PlannedRow]) -> list[Row]:
    """A row for each subject, with the columns that all of them have.

    The columns are of fine-tunings whose configurations differ in the seed alone, and of kept
    figures about order that were measured in the same way for all. Of several such ways the one
    with the most runs counts, then the one with the most examples.
    """
    wanted = [measure for measure in measures() if measure.at_end]
    at_end = {column.name for measure in wanted for column in measure.at_end}
    seeds: dict[str, int] = {}
    subject_of: dict[str, str] = {}
    values = []
    for subject in subjects:
        for run in subject.pretrainings:
            seeds[run.path.name], subject_of[run.path.name] = seed_of(run), subject.name
            names = [measure.name for measure in wanted]
            of_run = select(pretraining_values(run.path, run.record, names), percent=END)
            values += [value for value in of_run if value.column in at_end]
    values += filter(None, (_tuned(value, seeds) for value in read(measured=()) if value.way))
    names_of_all = [subject.name for subject in subjects]
    ways = shared_ways(values, lambda value: subject_of[value.origin], names_of_all)
    shared = [value for value in values if ways.get(value.column) == value.way]
    rows = []
    for subject in subjects:
        own = [value for value in shared if subject_of[value.origin] == subject.name]
        tunings = []
        for value in {value.run: value for value in own if value.is_tuning}.values():
            run = recorded(value.run)
            task = run.meaning["task"]["name"]
            tunings.append(Tuning(task, value.pretrain_seed or 0, value.seed, run))
        [row] = rows_of([replace(subject, tunings=tunings)])
        figures = [value for value in own if value.is_pretraining]
        states = ["finished"] * len(subject.pretrainings)
        columns = order_columns(dict.fromkeys(value.column for value in figures), figures, states)
        rows.append(replace(row, columns=columns | row.columns))
    return rows


def _tuned(value: Value, seeds: Mapping[str, int]) -> Value | None:
    """A value of a fine-tuning with the pre-training that it started from, by name; None if that is
    none of these.

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


def why_not(subjects: Sequence[PlannedRow]) -> str | None:
    """The reason why losses per token cannot be paired; None if they can."""
    runs = [run for subject in subjects for run in subject.pretrainings]
    # With another tokenizer, nats per token have another unit.
    if len({Path(input_name(run, "store")).name for run in runs}) > 1:
        return "they were trained on different text or tokenizers, whose losses per token are not of one kind"
    for key in SHARED:
        if len({run.meaning[key] for run in runs}) > 1:
            return f"their held-out examples differ in {key}"
    # Merged folders may lack these files. The page is published, so that paths appear on stderr
    # alone.
    for run in runs:
        for file in (input_of(run.path, "store") / RECORD, run.network / WEIGHTS):
            if not file.is_file():
                say(f"relpos: {run.name}: there is no {file}")
                return "the text or the weights of a run are not here"
    return None


def losses_table(
    subjects: Sequence[PlannedRow],
    examples: int,
    advance: Callable[[int], object],
) -> SideTable:
    """The losses of the subjects on held-out examples, with their differences to the first
    subject's.

    Args:
        subjects: the compared rows.
        examples: the most examples.
        advance: is called with the number of examples in each portion done.
    """
    first: dict[int, Figure] = {}
    lines = []
    for subject in subjects:
        figures = {}
        for run in subject.pretrainings:
            figures[seed_of(run)] = losses_of(run, examples, advance)
        texts = [f"{fmean(figure.value for figure in figures.values()):.4f}", *[MISSING] * 5]
        first = first or figures
        difference, units = between(figures, first)
        if difference and figures is not first:
            bounds = difference.value, difference.low, difference.high
            # Four decimals, or as many as half the interval needs for two digits.
            width = (difference.high - difference.low) / 2
            places = max(4, 1 - floor(log10(width))) if width > 0 else 4
            texts[1:4] = [signed(bound, places) for bound in bounds]
            texts[4:] = f"{difference.p:.2g}", f"{difference.n} {units}"
        lines.append((subject.name, texts))
    heads = ["nats per token", f"− {subjects[0].name}", "95 % from", "to", "p", "over"]
    number = next(iter(first.values())).examples
    return SideTable(f"paired held-out loss, {number} examples", heads, lines)


def between(
    ours: Mapping[int, Figure],
    first: Mapping[int, Figure],
) -> tuple[Difference | None, str]:
    """The difference of two subjects' losses, and its units: seeds or documents.

    Two or more common seeds are tested by Student's paired test. Otherwise the difference of two
    networks is tested over held-out documents, which shows nothing about other seeds.

    Args:
        ours: pre-training seed → loss.
        first: the same for the first subject.
    """
    # Seeds before documents, because the difference from seed to seed is part of the question.
    shared = sorted(ours.keys() & first)
    if tested := paired([ours[seed].value - first[seed].value for seed in shared]):
        return tested, "seeds"
    # The same seed, if there is one, because its effect on both networks cancels.
    seeds = [next(iter(shared or of_seed)) for of_seed in (ours, first)]
    pair = [ours[seeds[0]], first[seeds[1]]]
    units = "documents"
    if len(ours) > 1 or len(first) > 1:  # the losses beside it are means over seeds
        units += f", seed {' and '.join(map(str, dict.fromkeys(seeds)))}"
    return over_texts(pair[:1], pair[1:]), units


def losses_of(run: Run, examples: int, advance: Callable[[int], object] = lambda _: None) -> Figure:
    """The loss of a network on its held-out text, by example, in float32, under the masks by which
    every run is scored."""
    # The run's own keys define an example; `why_not` has checked that all subjects agree in them.
    store = Store(input_of(run.path, "store"))
    heldout = store.examples("heldout", run.meaning["packing"], run.meaning["length"], examples)
    loss = gaps(of_run(run.path).masked_lm(), heldout, {}, advance)
    parts = np.stack([loss.losses, loss.predicted])
    return Figure(
        float(loss.losses.sum() / loss.predicted.sum()),
        parts=parts,
        documents=heldout.documents().tolist(),
    )


def _folder_name(subjects: Sequence[PlannedRow], examples: int) -> str:
    content = [[run.identity for run in subject.pretrainings] for subject in subjects], examples
    name = re.sub(r"[^\w.=-]+", "-", "-".join(subject.name for subject in subjects))
    # File systems allow names of 255 bytes; the hash tells cut names apart.
    return f"{name[:80]}-{digest(content)}"

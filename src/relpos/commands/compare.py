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
from relpos.places import expanded
from relpos.progress import bar
from relpos.ranges import Count, Names
from relpos.readers import RECORD
from relpos.results.gain import over_texts
from relpos.results.statistics import Difference, paired_by_seed
from relpos.results.values import Value, pretraining_values, read, shared_ways
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
from relpos.train.network import class_of
from relpos.train.weights import WEIGHTS

GROUPS = ("position", "conv")
Settings = dict[str, str]
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
    for place, subject in enumerate(subjects):
        overrides = [
            f"{key}={values[place]}"
            for key, values in differing.items()
            if values[place] != MISSING
        ]
        subjects[place] = replace(subject, overrides=overrides)
    rows = compared_rows(subjects)
    name, question = (
        " and ".join(subject.name for subject in subjects),
        f"They differ in: {in_words(differing)}.",
    )
    experiment = Experiment(
        Path(), question, {row.name: row.overrides for row in rows}, [], baseline=[subjects[0].name]
    )
    # In place of an experiment file, which named networks do not have, with the first as baseline.
    rows = with_comparisons(rows, experiment, {})
    side_tables = []
    # Losses on different text cannot be subtracted; columns and curves are compared all the same.
    if reason := why_not(subjects):
        question += f" Their held-out losses are not compared: {reason}."
    else:
        with bar(
            "held-out text", examples * sum(len(subject.pretrainings) for subject in subjects)
        ) as advance:
            side_tables.append(losses_table(subjects, examples, advance))
    view = view_of(Table(name, question, rows), side_tables)
    folder = runs_root() / "compare" / _folder_name(subjects, examples)
    text.write(folder, view)
    pictures.draw_losses(folder / "curves.png", rows)
    text.terminal(view)
    say(f"one page: {folder / 'table.html'}")
    return str(folder)


def by_seed(row: PlannedRow) -> dict[int, Run]:
    """Seed → pre-training."""
    return {int(run.meaning["seed"]): run for run in row.pretrainings}


def text_of(run: Run) -> str:
    """The name of the token store that a run of a folder read."""
    return Path(run.record.get("inputs", {}).get("store", "")).name


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
        # By content and not by name, because a run may be named by its folder and by its table.
        first = subject.pretrainings[0]
        alike = protocol(
            first.meaning, {"text": text_of(first), "start": first.record["inputs"].get("start")}
        )
        row = rows.setdefault(alike, replace(subject, pretrainings=[]))
        for run in subject.pretrainings:
            if int(run.meaning["seed"]) in by_seed(row):
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
    pretrainings = {run.path.name: run for subject in subjects for run in subject.pretrainings}
    subject_of = {
        run.path.name: subject.name for subject in subjects for run in subject.pretrainings
    }
    seeds = {name: int(run.meaning["seed"]) for name, run in pretrainings.items()}
    scores = [value for value in read(measured=()) if value.way]
    tuned = list(filter(None, (_of_run(value, seeds) for value in scores)))
    used = shared_ways(tuned, lambda value: subject_of[value.origin], set(subject_of.values()))
    tunings = {value.run: value for value in tuned if used.get(value.column) == value.way}
    measured = _shared_figures(list(pretrainings.values()))
    rows = []
    for subject in subjects:
        of_subject = []
        for value in tunings.values():
            if subject_of[value.origin] == subject.name:
                run = recorded(value.run)
                of_subject.append(
                    Tuning(run.meaning["task"]["name"], value.pretrain_seed or 0, value.seed, run)
                )
        folders = {run.path for run in subject.pretrainings}
        figures = [value for value in measured if value.run in folders]
        names = dict.fromkeys(value.column for value in figures)
        columns = order_columns(names, figures, ["finished"] * len(subject.pretrainings))
        [row] = rows_of([replace(subject, tunings=of_subject)])
        rows.append(replace(row, columns=columns | row.columns))
    return rows


def _of_run(value: Value, seeds: Mapping[str, int]) -> Value | None:
    """The value with the pre-training that it started from; None if that is none of these.

    A fine-tuning may name its pre-training by the folder of the model.
    """
    start = Path(value.origin)
    origin = start.parent.name if start.name == "model" else start.name
    if not value.is_tuning or origin not in seeds:
        return None
    # For a pre-training named by its model, the way does not contain the change of the network.
    change = value.scheme if value.pretrain_seed is None else ""
    way = protocol({"of": value.way, "change": change})
    return replace(value, origin=origin, pretrain_seed=seeds[origin], way=way)


def _shared_figures(runs: Sequence[Run]) -> list[Value]:
    """The kept figures of pre-trainings that were measured in the same way for all of them."""
    with_columns = [measure for measure in measures() if measure.at_end]
    columns = {column.name for measure in with_columns for column in measure.at_end}
    figures = []
    for run in runs:
        for value in pretraining_values(
            run.path, run.record, [measure.name for measure in with_columns]
        ):
            if value.column in columns and value.figure and value.percent == END:
                figures.append(value)
    shared = shared_ways(figures, lambda value: value.run, {run.path for run in runs})
    return [value for value in figures if shared.get(value.column) == value.way]


def differences(subjects: Sequence[PlannedRow]) -> dict[str, list[str]]:
    """Key → its value in each subject, for the keys in which they are not all equal; `—` for a
    subject without the key.

    Dials of different schemes cannot be compared, so they are left out where there are several
    schemes. A dial in which two subjects of the same scheme differ stands behind the scheme's name:
    `composite(k=4)`.
    """
    described = [_described(subject) for subject in subjects]
    values = _differing(described)
    for group in filter(values.__contains__, GROUPS):
        # Dials can be compared within a scheme; in another scheme the same k means something else.
        for name in set(values[group]):
            of_name = [settings for settings in described if settings.get(group) == name]
            dials = [key for key in _differing(of_name) if key.startswith(f"{group}.")]
            for settings in of_name:
                dial_texts = ",".join(
                    f"{key.partition('.')[2]}={settings.get(key, MISSING)}" for key in dials
                )
                settings[group] = f"{name}({dial_texts})" if dial_texts else name
        described = [_without(settings, f"{group}.") for settings in described]
    return _differing(described)


def _without(settings: Settings, prefix: str) -> Settings:
    return {key: value for key, value in settings.items() if not key.startswith(prefix)}


def in_words(differing: Mapping[str, Sequence[str]]) -> str:
    """`position=fixed → composite, steps=100 → 200`; without differences, a phrase that says so."""
    return (
        ", ".join(f"{key}={' → '.join(values)}" for key, values in differing.items())
        or "nothing that results depend on"
    )


def titled(subjects: Sequence[PlannedRow]) -> list[PlannedRow]:
    """The subjects under different names: to a name that several have, the settings in which these
    differ are added."""
    result = []
    for subject in subjects:
        # A name that is there once stays as it is, because a figure is easier to read with short
        # names.
        same = [namesake for namesake in subjects if namesake.name == subject.name]
        settings = {
            key: values[same.index(subject)]
            for key, values in differences(same).items()
            if key != "seed"
        }
        name = " ".join(
            [
                subject.name,
                *(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items()),
            ]
        )
        result.append(replace(subject, name=name))
    return result


def _differing(described: Sequence[Settings]) -> dict[str, list[str]]:
    keys = dict.fromkeys(key for settings in described for key in settings)
    values = {key: [settings.get(key, MISSING) for settings in described] for key in keys}
    return {key: of_key for key, of_key in values.items() if len(set(of_key)) > 1}


def _described(subject: PlannedRow) -> Settings:
    """Key → value of everything that the subject's results depend on; `seed` lists the seeds of its
    pre-trainings."""
    run = subject.pretrainings[0]
    settings: Settings = {}
    for group in GROUPS:
        # The name of the class, and its dials as `position.k`, …
        settings[group] = class_of(run.meaning.get(group))
        for path, value in leaves(group, run.meaning.get(group) or {}):
            if not path.endswith(("._target_", "._partial_")):
                settings[path] = _word(value)
    for key, content in run.meaning.items():
        if key not in GROUPS:
            settings |= {path: _word(value) for path, value in leaves(key, content)}
    # The meaning does not name the network that was trained further.
    if start := run.record["inputs"].get("start"):
        place = Path(start)
        settings["start"] = run_of(place).name
        if place.parent.name == SNAPSHOTS:
            settings["start"] += f" at {place.stem} %"
    return settings | {
        "seed": ",".join(str(seed) for seed in sorted(by_seed(subject))),
        "text": text_of(run),
    }


def _word(value: object) -> str:
    if value is None:
        return "null"
    # Hashes are cut.
    return re.sub(r"\b([0-9a-f]{7})[0-9a-f]{25,}\b", r"\1", str(value))


def why_not(subjects: Sequence[PlannedRow]) -> str | None:
    """The reason why losses per token cannot be paired; None if they can."""
    runs = [run for subject in subjects for run in subject.pretrainings]
    # With another tokenizer, nats per token have another unit.
    if len({text_of(run) for run in runs}) > 1:
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
    subjects: Sequence[PlannedRow], examples: int, advance: Callable[[int], object]
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
        figures = {
            seed: losses_of(run, examples, advance) for seed, run in by_seed(subject).items()
        }
        texts = [MISSING] * 5
        if not first:
            first = figures
        else:
            difference, units = between(figures, first)
            if difference is not None:
                places = _decimals(difference)
                bounds = [
                    signed(value, places)
                    for value in (difference.value, difference.low, difference.high)
                ]
                texts = [*bounds, f"{difference.p:.2g}", f"{difference.n} {units}"]
        lines.append(
            (subject.name, [f"{fmean(figure.value for figure in figures.values()):.4f}", *texts])
        )
    heads = ["nats per token", f"− {subjects[0].name}", "95 % from", "to", "p", "over"]
    return SideTable(
        f"paired held-out loss, {next(iter(first.values())).examples} examples", heads, lines
    )


def _decimals(difference: Difference) -> int:
    """The decimals of a difference: four, or as many as half the interval needs for two digits.

    >>> _decimals(Difference(0.01, 0.003, 2.0, 3)), _decimals(Difference(-2e-5, 1e-6, 2.0, 3))
    (4, 7)
    """
    width = difference.high - difference.low
    if width <= 0:
        return 4
    return max(4, 1 - floor(log10(width / 2)))


def between(
    ours: Mapping[int, Figure], first: Mapping[int, Figure]
) -> tuple[Difference | None, str]:
    """The difference of two subjects' losses, and its units: seeds or documents.

    Two or more common seeds are tested by Student's paired test. Otherwise the difference of two
    networks is tested over held-out documents, which shows nothing about other seeds.

    Args:
        ours: pre-training seed → loss.
        first: the same for the first subject.
    """
    # Seeds before documents, because the difference from seed to seed is part of the question.
    values = (
        {seed: figure.value for seed, figure in sorted(figures.items())}
        for figures in (ours, first)
    )
    if tested := paired_by_seed(*values):
        return tested, "seeds"
    # The same seed, if there is one, because its effect on both networks cancels.
    for seed in ours:
        if seed in first:
            return over_texts([ours[seed]], [first[seed]]), "documents"
    return over_texts([next(iter(ours.values()))], [next(iter(first.values()))]), "documents"


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

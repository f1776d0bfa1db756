"""`relpos compare`: runs beside each other on one page. They are rows of a table: finished pre-trainings and the fine-tunings that
all of them have; and what distinguishes them stands above it, as `position=fixed → composite`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from glob import glob, has_magic
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
"""Dials of a pre-training that decide, together with its text, what a held-out example is."""


def compare(network: Names, examples: Count) -> str:
    """Writes a table of the runs below `$RELPOS_RUNS/compare`, prints it, and returns its folder.

    The first run is the baseline with which the losses and the columns of the others are compared.

    Raises:
        RelposError: fewer than two rows are named, one is not a finished pre-training, or its scheme is not trusted.
    """
    subjects = titled(subjects_of(network))
    differing = differences(subjects)
    for place, subject in enumerate(subjects):
        own = {key: values[place] for key, values in differing.items()}
        subjects[place] = replace(subject, overrides=[f"{key}={value}" for key, value in own.items() if value != MISSING])
    rows = compared_rows(subjects)
    name, question = " and ".join(subject.name for subject in subjects), f"They differ in: {in_words(differing)}."
    experiment = Experiment(Path(), question, {row.name: row.overrides for row in rows}, [], baseline=[subjects[0].name])
    # Networks that a user names have no experiment file; this stands for one with the first as baseline.
    rows = with_comparisons(rows, experiment, {})
    side_tables = []
    # Losses on different text cannot be subtracted; columns and curves are compared all the same.
    if (reason := why_not(subjects)) is None:
        with bar("held-out text", examples * sum(len(subject.pretrainings) for subject in subjects)) as advance:
            side_tables.append(losses_table(subjects, examples, advance))
    if reason is not None:
        question += f" Their held-out losses are not compared: {reason}."
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
    """What is compared: rows of pre-trainings that differ in their seed alone. Several may have the same name, see `titled`.

    Args:
        names: of runs and of rows of tables, or patterns of the names of runs (`pretrain/sine-*`).

    Raises:
        RelposError: fewer than two rows are named, one run is named twice, or one is not a finished pre-training.
    """
    rows: dict[str, PlannedRow] = {}
    said: dict[str, str] = {}
    for name in (match for pattern in names for match in _matches(pattern)):
        subject = _subject(name)
        # By content and not by name: a run may be named by its folder and by its table.
        first = subject.pretrainings[0]
        alike = protocol(first.meaning, {"text": text_of(first), "start": first.record["inputs"].get("start")})
        row = rows.setdefault(alike, replace(subject, pretrainings=[]))
        for run in subject.pretrainings:
            if int(run.meaning["seed"]) in by_seed(row):
                raise RelposError(f"network={name}: the same as {said[alike]}; runs that differ are compared")
            row.pretrainings.append(run)
        said[alike] = name
    if len(rows) < 2:
        same = "; these differ in their seed alone" if any(len(row.pretrainings) > 1 for row in rows.values()) else ""
        raise RelposError(f"network={','.join(names)}: two or more are compared, as in: relpos compare FOLDER TABLE:ROW{same}")
    return list(rows.values())


def _matches(name: str) -> list[str]:
    """The runs whose folders a pattern names, from here or below $RELPOS_RUNS; a name that is no pattern as it is."""
    place = str(expanded(name))
    if not has_magic(place) or Path(place).exists():
        return [name]
    found = glob(place) or [str(runs_root() / match) for match in glob(place, root_dir=runs_root())]
    if not found:
        raise RelposError(f"network={name}: no run has a name like this, here or in {runs_root()}")
    return sorted(found)


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
    used = shared_ways(tuned, lambda each: names[each.origin], set(names.values()))
    tunings = {each.run: each for each in tuned if used.get(each.column) == each.way}
    measured = _shared_figures([run for subject in subjects for run in subject.pretrainings])
    rows = []
    for subject in subjects:
        runs = [(each, recorded(each.run)) for each in tunings.values() if names[each.origin] == subject.name]
        own = [Tuning(run.meaning["task"]["name"], each.pretrain_seed or 0, each.seed, run) for each, run in runs]
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


def _shared_figures(runs: Sequence[Run]) -> list[Value]:
    """What was measured of some pre-trainings in the same way for all of them."""
    asked = {measure.name: [column.name for column in measure.at_end] for measure in measures() if measure.at_end}
    columns = {name for names in asked.values() for name in names}
    values = [each for run in runs for each in pretraining_values(run.path, run.record, list(asked)) if each.column in columns]
    known = [each for each in values if each.figure and each.percent == END]
    shared = shared_ways(known, lambda each: each.run, {run.path for run in runs})
    return [each for each in known if shared.get(each.column) == each.way]


def differences(subjects: Sequence[PlannedRow]) -> dict[str, list[str]]:
    """Key → its value in each subject, for the keys in which they are not all equal; `—` for a subject without the key.

    Dials of different schemes cannot be compared, so they are left out where there are several schemes. A dial in which two
    subjects of the same scheme differ stands behind the scheme's name: `composite(k=4)`.
    """
    described = [_described(subject) for subject in subjects]
    values = _differing(described)
    for group in (group for group in GROUPS if group in values):
        # Within a scheme its dials can be compared; between schemes a k means something else in each.
        for name in set(values[group]):
            of_name = [settings for settings in described if settings.get(group) == name]
            dials = [key for key in _differing(of_name) if key.startswith(f"{group}.")]
            for settings in of_name:
                shown = ",".join(f"{key.partition('.')[2]}={settings.get(key, MISSING)}" for key in dials)
                settings[group] = f"{name}({shown})" if shown else name
        described = [{key: value for key, value in settings.items() if not key.startswith(f"{group}.")} for settings in described]
    return _differing(described)


def in_words(differing: Mapping[str, Sequence[str]]) -> str:
    """`position=fixed → composite, steps=100 → 200`; without differences, a phrase that says so."""
    return ", ".join(f"{key}={' → '.join(values)}" for key, values in differing.items()) or "nothing that results depend on"


def titled(subjects: Sequence[PlannedRow]) -> list[PlannedRow]:
    """The subjects under different names: to a name that several have, the settings in which these differ are added."""
    result = []
    for subject in subjects:
        # Only names that stand twice grow longer, one alone differs in nothing: short ones are easier to read in a figure.
        same = [other for other in subjects if other.name == subject.name]
        settings = {key: values[same.index(subject)] for key, values in differences(same).items() if key != "seed"}
        name = " ".join([subject.name, *(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items())])
        result.append(replace(subject, name=name))
    return result


def _differing(described: Sequence[Settings]) -> dict[str, list[str]]:
    keys = dict.fromkeys(key for settings in described for key in settings)
    values = {key: [settings.get(key, MISSING) for settings in described] for key in keys}
    return {key: of_key for key, of_key in values.items() if len(set(of_key)) > 1}


def _described(subject: PlannedRow) -> Settings:
    """Key → value of everything that the subject's results depend on; `seed` lists the seeds of its pre-trainings."""
    run = subject.pretrainings[0]
    settings: Settings = {}
    for group in GROUPS:
        # The name of its class, and `position.k`, … its dials.
        dials = dict(leaves(group, run.meaning.get(group) or {}))
        settings |= {group: class_of(run.meaning.get(group))}
        settings |= {path: _word(value) for path, value in dials.items() if not path.endswith(("._target_", "._partial_"))}
    for key in (key for key in run.meaning if key not in GROUPS):
        settings |= {path: _word(value) for path, value in leaves(key, run.meaning[key])}
    if start := run.record["inputs"].get("start"):  # of a network that was trained further, which its meaning does not say
        place = Path(start)
        settings["start"] = run_of(place).name + f" at {place.stem} %" * (place.parent.name == SNAPSHOTS)
    return settings | {"seed": ",".join(str(seed) for seed in sorted(by_seed(subject))), "text": text_of(run)}


def _word(value: object) -> str:
    return "null" if value is None else re.sub(r"\b([0-9a-f]{7})[0-9a-f]{25,}\b", r"\1", str(value))  # a hash is cut


def why_not(subjects: Sequence[PlannedRow]) -> str | None:
    """Why losses per token cannot be paired; None where they can."""
    runs = [run for subject in subjects for run in subject.pretrainings]
    # Another tokenizer cuts text into other tokens: nats per token would count other things.
    if len({text_of(run) for run in runs}) > 1:
        return "they were trained on different text or tokenizers, whose losses per token are not of one kind"
    for key in SHARED:
        if len({run.meaning[key] for run in runs}) > 1:
            return f"their held-out examples differ in {key}"
    # As after merging two folders; a page travels, and paths stay at home.
    for run in runs:
        for file in (input_of(run.path, "store") / RECORD, run.network / WEIGHTS):
            if not file.is_file():
                say(f"relpos: {run.name}: there is no {file}")
                return "the text or the weights of a run are not here"
    return None


def losses_table(subjects: Sequence[PlannedRow], examples: int, advance: Callable[[int], object]) -> SideTable:
    """The losses of the subjects on at most `examples` held-out examples, each with its difference to the first subject's.

    `advance` is called with the number of examples in each portion done.
    """
    losses = [{seed: losses_of(run, examples, advance) for seed, run in by_seed(subject).items()} for subject in subjects]
    lines = []
    for subject, figures in zip(subjects, losses, strict=True):
        difference, over = (None, "") if figures is losses[0] else between(figures, losses[0])
        texts = [MISSING] * 5
        if difference is not None:
            places = _decimals(difference)
            bounds = [signed(value, places) for value in (difference.value, difference.low, difference.high)]
            texts = [*bounds, f"{difference.p:.2g}", f"{difference.n} {over}"]
        lines.append((subject.name, [f"{fmean(figure.value for figure in figures.values()):.4f}", *texts]))
    heads = ["nats per token", f"− {subjects[0].name}", "95 % from", "to", "p", "over"]
    return SideTable(f"paired held-out loss, {next(iter(losses[0].values())).examples} examples", heads, lines)


def _decimals(difference: Difference) -> int:
    """Four, or as many as half the interval needs for two digits: 0.0000 would hide what p is about.

    >>> _decimals(Difference(0.01, 0.003, 2.0, 3)), _decimals(Difference(-2e-5, 1e-6, 2.0, 3))
    (4, 7)
    """
    width = difference.high - difference.low
    return max(4, 1 - floor(log10(width / 2))) if width > 0 else 4


def between(ours: Mapping[int, Figure], first: Mapping[int, Figure]) -> tuple[Difference | None, str]:
    """The difference of two subjects' losses by pre-training seed, and what it is tested over: the seeds (Student's paired test)
    where they have two or more in common, else held-out documents: then it says how two networks differ, and nothing about other
    seeds.
    """
    # Seeds before examples: what differs from seed to seed is part of the question, if there is a way to know it.
    values = ({seed: figure.value for seed, figure in sorted(figures.items())} for figures in (ours, first))
    if found := paired_by_seed(*values):
        return found, "seeds"
    both = [seed for seed in ours if seed in first]  # what a seed does to both is no difference
    one, other = (both * 2)[:2] or (next(iter(ours)), next(iter(first)))
    return over_texts([ours[one]], [first[other]]), "documents"


def losses_of(run: Run, examples: int, advance: Callable[[int], object] = lambda _: None) -> Figure:
    """The loss of a network on its held-out text, by example, in float32, under the masks that every run is scored with."""
    # The run's own dials decide what an example is; `why_not` has seen that all subjects agree.
    store = Store(input_of(run.path, "store"))
    heldout = store.examples("heldout", run.meaning["packing"], run.meaning["length"], examples)
    found = gaps(of_run(run.path).masked_lm(), heldout, {}, advance)
    parts = np.stack([found.losses, found.predicted])
    return Figure(float(found.losses.sum() / found.predicted.sum()), parts=parts, documents=heldout.documents().tolist())


def _folder_name(subjects: Sequence[PlannedRow], examples: int) -> str:
    content = [[run.identity for run in subject.pretrainings] for subject in subjects], examples
    name = re.sub(r"[^\w.=-]+", "-", "-".join(subject.name for subject in subjects))
    # Cut, because file systems allow names of 255 bytes; the hash tells the folders apart.
    return f"{name[:80]}-{digest(content)}"

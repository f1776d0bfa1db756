"""Runs that a user names, as rows of a table: finished pre-trainings and the fine-tunings that all of them have; and what
distinguishes them, as text: `position=fixed → composite`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from relpos.errors import RelposError
from relpos.measures.measure import measures
from relpos.results.values import Value, pretraining_values, read, shared_ways
from relpos.runs.networks import labels, networks_of
from relpos.runs.run import Run, recorded
from relpos.runs.shelf import END, protocol
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.render.cell import MISSING
from relpos.tables.row import Row
from relpos.tables.rows import order_columns, rows_of
from relpos.train.described import class_of

GROUPS = ("position", "conv")
Settings = dict[str, str]


def by_seed(row: PlannedRow) -> dict[int, Run]:
    """Seed → pre-training."""
    return {int(run.meaning["seed"]): run for run in row.pretrainings}


def text_of(run: Run) -> str:
    """The name of the token store that a run of a folder read."""
    return Path(run.record.get("inputs", {}).get("store", "")).name


def subjects_of(names: Sequence[str]) -> list[PlannedRow]:
    """What is compared: under each name a pre-training, or those of a table's row. Several may have the same name, see
    `titled`.

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
    # Only names that stand twice grow longer: short ones are easier to read in a figure.
    count = Counter(subject.name for subject in subjects)
    result = []
    for subject in subjects:
        same = [other for other in subjects if other.name == subject.name]
        settings = {key: values[same.index(subject)] for key, values in differences(same).items()}
        name = " ".join([subject.name, *(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items())])
        result.append(replace(subject, name=name) if count[subject.name] > 1 else subject)
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
        dials = dict(_leaves(group, run.meaning.get(group) or {}))
        settings |= {group: class_of(run.meaning.get(group))}
        settings |= {path: value for path, value in dials.items() if not path.endswith(("._target_", "._partial_"))}
    for key in (key for key in run.meaning if key not in GROUPS):
        settings |= dict(_leaves(key, run.meaning[key]))
    return settings | {"seed": ",".join(str(seed) for seed in sorted(by_seed(subject))), "text": text_of(run)}


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(f"{path}.{key}", part)
    else:
        yield path, "null" if value is None else str(value)

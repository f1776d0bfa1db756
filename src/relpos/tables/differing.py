"""What distinguishes runs, as text: `position=fixed → composite`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from relpos.config.conf import conf_dir
from relpos.readers import read_yaml
from relpos.tables.compared import by_seed, text_of
from relpos.tables.plan import PlannedRow

GROUPS = ("position", "conv")
MISSING = "—"
Settings = dict[str, str]


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


def option_of(group: str, node: Mapping[str, Any]) -> str:
    """The option of `conf` that a node comes from, whatever its dials; the name of the node's class if no option fits."""
    counts = {name: _values_fixed(preset, node) for name, preset in _presets(group)}
    fitting = {name: count for name, count in counts.items() if count is not None}
    # The most special: an option with one fixed value fits wherever one with that value and another does.
    return max(fitting, key=lambda name: fitting[name]) if fitting else str(node["_target_"]).rpartition(".")[2]


def _values_fixed(preset: Any, node: Any) -> int | None:
    """How many values of a node a preset fixes; None where it fixes another value. An interpolation is a dial: it fixes none."""
    if isinstance(preset, str) and "${" in preset:
        return 0
    if isinstance(preset, Mapping):
        parts = [_values_fixed(value, node.get(key)) for key, value in preset.items()] if isinstance(node, Mapping) else [None]
    elif isinstance(preset, list):
        fits = isinstance(node, list) and len(node) == len(preset)
        parts = [_values_fixed(*pair) for pair in zip(preset, node, strict=True)] if fits else [None]
    else:
        parts = [1 if preset == node else None]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _differing(described: Sequence[Settings]) -> dict[str, list[str]]:
    keys = dict.fromkeys(key for settings in described for key in settings)
    values = {key: [settings.get(key, MISSING) for settings in described] for key in keys}
    return {key: of_key for key, of_key in values.items() if len(set(of_key)) > 1}


def _described(subject: PlannedRow) -> Settings:
    """Key → value of everything that the subject's results depend on; `seed` lists the seeds of its pre-trainings."""
    run = subject.pretrainings[0]
    settings: Settings = {}
    for group in GROUPS:
        settings |= _node(group, run.meaning.get(group))
    for key in (key for key in run.meaning if key not in GROUPS):
        settings |= dict(_leaves(key, run.meaning[key]))
    return settings | {"seed": ",".join(str(seed) for seed in sorted(by_seed(subject))), "text": text_of(run)}


def _node(group: str, node: Mapping[str, Any] | None) -> Settings:
    """`position` → the name of the option, and `position.k`, … → its dials."""
    if not node:
        return {group: "none"}
    dials = {path: value for path, value in _leaves(group, node) if not path.endswith(("._target_", "._partial_"))}
    return {group: option_of(group, node)} | dials


@cache
def _presets(group: str) -> list[tuple[str, dict[str, Any]]]:
    files = sorted((conf_dir() / group).glob("*.yaml"))
    # `custom` is a form for the user to fill in, from which no node comes as it stands.
    return [(file.stem, read_yaml(file)) for file in files if file.stem != "custom"]


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(f"{path}.{key}", part)
    else:
        yield path, "null" if value is None else str(value)

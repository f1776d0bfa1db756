"""What a command line gives in place of an experiment file: which rows it changes, and where the table is written then."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relpos.config.conf import key_of, shipped
from relpos.errors import RelposError, say
from relpos.files import digest, write_text
from relpos.readers import read_bytes, read_text
from relpos.runs.plan import MACHINE
from relpos.runs.table_file import FILE, runs_by_row, table_folder
from relpos.tables.experiment import Experiment, of_stage, overrides_of

SAME_ROW = (*MACHINE, "seed", "data.root", "data.glue")
"""Keys, or groups, that may differ where a row is still that of the file: machines, seeds, and where the same data lie."""
PUBLISHED = ("hub", "files")
"""Options of `data` that give the same text: from the hub, and from a folder."""
LONGEST = 60
"""Characters that a table's folder has behind the name of the table."""
SOURCE = "experiment.txt"
"""In a table's folder: the experiment file that it is made from."""


@dataclass(frozen=True)
class Changes:
    """What is typed beside the name of a table.

    Args:
        rows: the names of the rows that are asked for; None: all.
        keys: `seeds`, `pretrain_seeds` and `tasks` in place of the file's.
        overrides: added to every row.
    """

    rows: Sequence[str] | None = None
    keys: Mapping[str, Any] = field(default_factory=dict)
    overrides: Sequence[str] = ()

    @property
    def shown(self) -> list[str]:
        """What the table is made with in place of the file's: that which may change its numbers, each key as it was given last.

        Nothing of the machine, where a logger's key would be.

        >>> Changes(None, {"seeds": [0, 7]}, ["size=base", "speed.threads=2", "size=tiny"]).shown
        ['seeds=[0,7]', 'size=tiny']
        """
        last = {key_of(override): override.lstrip("+") for override in self.overrides}
        values = {key: [Path(str(value)).name for value in values] for key, values in _lists(self.keys)}
        keys = [f"{key}=[{','.join(names)}]" for key, names in values.items()]
        return keys + [override for key, override in last.items() if not _is_below(_plain(key), MACHINE)]

    @property
    def words(self) -> list[str]:
        """For the name of a folder."""
        return [*(self.rows or ()), *self.shown]


def _lists(keys: Mapping[str, Any]) -> Iterable[tuple[str, Sequence[Any]]]:
    for key, value in keys.items():
        yield key, list(range(value)) if isinstance(value, int) else value


def _plain(key: str) -> str:
    """A key without the stage before it."""
    return re.sub(r"^(pretrain|finetune)\.", "", key)


def _is_below(key: str, keys: Collection[str]) -> bool:
    return key in keys or key.partition(".")[0] in keys


def effective(experiment: Experiment, name: str, overrides: Sequence[str]) -> list[str]:
    """The overrides of a row, where those of the command line stand in place of those that they replace.

    >>> table = Experiment(Path("t.yaml"), "?", {"a": ["size=base", "position=none"]}, tasks=[])
    >>> effective(table, "a", ["pretrain.size=tiny", "k=3"])
    ['pretrain.size=tiny', 'position=none']
    """
    by_stage = {
        stage: {key_of(reduced): override for override in overrides for reduced in of_stage(stage, [override])}
        for stage in experiment.trained
    }
    result: list[str] = []
    for own in experiment.rows[name]:
        reached = [(stage, key_of(reduced)) for stage in by_stage for reduced in of_stage(stage, [own])]
        typed = [by_stage[stage].get(key) for stage, key in reached]
        # Of two stages, one may still have the row's own.
        result += [own] if not typed or None in typed else [override for override in typed if override]
    return list(dict.fromkeys(result))


def is_changed(experiment: Experiment, name: str, overrides: Sequence[str]) -> bool:
    """Whether a row is another one than the file's, so that no printed number belongs beside it.

    >>> table = Experiment(Path("t.yaml"), "?", {"a": ["size=base"]}, tasks=[], base=["data=hub"])
    >>> [is_changed(table, "a", [typed]) for typed in ("size=base", "data=files", "speed.threads=2", "size=tiny", "data=toy")]
    [False, False, False, True, True]
    """
    for stage in experiment.trained:
        of_file = {key_of(own): own.partition("=")[2] for own in overrides_of(stage, experiment, experiment.rows.get(name, ()))}
        typed = {key_of(override): override.partition("=")[2] for override in of_stage(stage, overrides)}
        if not all(_is_same(key, value, of_file.get(key), experiment) for key, value in typed.items()):
            return True
    return False


def _is_same(key: str, value: str, of_file: str | None, experiment: Experiment) -> bool:
    if key == "network" and experiment.network:
        # A copy on disk counts where its path has the name of the file's checkpoint.
        return experiment.network == "???" or Path(experiment.network).name in value
    is_same_data = key == "data" and value in PUBLISHED and of_file in PUBLISHED
    return value == of_file or is_same_data or _is_below(key, SAME_ROW)


def folder_of(experiment: Experiment, changes: Changes, identities: Collection[str]) -> Path:
    """Where the table is written: `tables/NAME`, or, if the table there has finished runs that this one leaves out because of
    what is typed, beside it, in a folder that is named after that.

    Args:
        identities: of the runs of this table.

    Raises:
        RelposError: the table there is that of another file of this name.
    """
    folder = table_folder(experiment.name)
    _refuse_other_file(folder, experiment)
    if not changes.words or not _finished(folder) - {*identities}:
        return folder
    say(f"relpos: {folder} has results that are not asked for here: this table is written beside it")
    words = "-".join(changes.words)
    short = re.sub(r"[^\w.]+", "-", words)[:LONGEST].strip("-.")
    # What cannot stand in the name of a folder is told apart by a few digits.
    is_whole = not re.search(r"[^\w.=\[\],-]", words) and len(words) <= LONGEST
    return folder.with_name(f"{folder.name}-{short}" + ("" if is_whole else f"-{digest(words, 6)}"))


def _finished(folder: Path) -> set[str]:
    """The identities of the finished runs that the table of a folder shows; none where there is no table."""
    if not (folder / FILE).is_file():
        return set()
    try:
        return {run.identity for runs in runs_by_row(folder).values() for run in runs if run.state == "finished"}
    except RelposError as error:
        say(f"relpos: {error}; it is written anew")
        return set()


def claim_folder(folder: Path, experiment: Experiment) -> None:
    """Notes in the folder of a table which file it is made from, before its runs begin."""
    write_text(folder / SOURCE, f"{_source(experiment)}\n")


def _source(experiment: Experiment) -> str:
    """The path of the file; of one that ships with the package, which lies elsewhere on every machine, the name alone."""
    is_shipped = experiment.file.resolve().parent == shipped("experiments").resolve()
    return experiment.name if is_shipped else str(experiment.file.resolve())


def _refuse_other_file(folder: Path, experiment: Experiment) -> None:
    if not (folder / SOURCE).is_file():
        return
    before = read_text(folder / SOURCE).strip()
    if before == _source(experiment):
        return
    path = Path(before) if "/" in before else shipped("experiments") / f"{before}.yaml"
    # A file that has moved is the same one; and so is a copy.
    if path.is_file() and read_bytes(path) != read_bytes(experiment.file):
        raise RelposError(
            f"table={experiment.file}: {folder} is the table of {before}; the file's name is the table's: give it another one"
        )

"""Changes that a command line makes to an experiment file: which rows they affect, and where the
changed table is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relpos.config.conf import key_of, shipped
from relpos.errors import RelposError, say
from relpos.files import write_text
from relpos.readers import digest, read_bytes, read_text
from relpos.runs.table_file import FILE, runs_by_row, table_folder
from relpos.stages.identity import MACHINE
from relpos.tables.experiment import Experiment, of_stage, overrides_of

SAME_ROW = (*MACHINE, "seed", "data.root", "data.glue")
"""Keys, or groups, that may differ while a row is still that of the file: machines, seeds, and the
folders of the same data."""
PUBLISHED = ("hub", "files")
"""Options of `data` that give the same text, from the hub and from a folder."""
LONGEST = 60
"""The most characters that the name of a table's folder has after the name of the table."""
SOURCE = "experiment.txt"
"""File in a table's folder that names the experiment file of the table."""


@dataclass(frozen=True)
class Changes:
    """Arguments that are typed beside the name of a table.

    Args:
        rows: the names of the rows that are asked for; None: all.
        keys: `seeds`, `pretrain_seeds` and `tasks` in place of the file's.
        overrides: added to every row.
    """

    rows: Sequence[str] | None = None
    keys: Mapping[str, int | Sequence[object]] = field(default_factory=dict)
    overrides: Sequence[str] = ()

    @property
    def shown(self) -> list[str]:
        """The changes that may change the table's numbers, each key as it was typed last.

        Keys of the machine are left out; a logger's password would be among them.

        >>> Changes(None, {"seeds": [0, 7]}, ["size=base", "speed.threads=2", "size=tiny"]).shown
        ['seeds=[0,7]', 'size=tiny']
        """
        keys = []
        for key, value in self.keys.items():
            values = range(value) if isinstance(value, int) else value
            keys.append(f"{key}=[{','.join(Path(str(item)).name for item in values)}]")
        last = {key_of(override): override.lstrip("+") for override in self.overrides}
        return keys + [
            override
            for key, override in last.items()
            if not _is_below(re.sub(r"^(pretrain|finetune)\.", "", key), MACHINE)
        ]


def _is_below(key: str, keys: Collection[str]) -> bool:
    return key in keys or key.partition(".")[0] in keys


def effective(experiment: Experiment, name: str, overrides: Sequence[str]) -> list[str]:
    """The overrides of a row, in which overrides of the command line stand in place of those that
    they replace.

    >>> table = Experiment(Path("t.yaml"), "?", {"a": ["size=base", "position=none"]}, tasks=[])
    >>> effective(table, "a", ["pretrain.size=tiny", "k=3"])
    ['pretrain.size=tiny', 'position=none']
    """
    by_stage = {
        stage: {
            key_of(reduced): override
            for override in overrides
            for reduced in of_stage(stage, [override])
        }
        for stage in experiment.trained
    }
    result: list[str] = []
    for own_override in experiment.rows[name]:
        typed = [
            of_typed.get(key_of(reduced))
            for stage, of_typed in by_stage.items()
            for reduced in of_stage(stage, [own_override])
        ]
        # The row's own override stays if it still counts in one of the stages.
        if not typed or None in typed:
            result.append(own_override)
        else:
            result += filter(None, typed)
    return list(dict.fromkeys(result))


def is_changed(experiment: Experiment, name: str, overrides: Sequence[str]) -> bool:
    """Whether a row differs from the file's, so that no printed number belongs beside it.

    >>> table = Experiment(Path("t.yaml"), "?", {"a": ["size=base"]}, tasks=[], base=["data=hub"])
    >>> [is_changed(table, "a", [typed]) for typed in ("size=base", "data=files", "speed.threads=2", "size=tiny", "data=toy")]
    [False, False, False, True, True]
    """
    for stage in experiment.trained:
        row = overrides_of(stage, experiment, experiment.rows.get(name, ()))
        of_file, typed = (
            {key_of(override): override.partition("=")[2] for override in group}
            for group in (row, of_stage(stage, overrides))
        )
        if not all(
            _is_same(key, value, of_file.get(key), experiment) for key, value in typed.items()
        ):
            return True
    return False


def _is_same(key: str, value: str, of_file: str | None, experiment: Experiment) -> bool:
    if key == "network" and experiment.network:
        # A copy on disk counts as the file's checkpoint if its path has that name.
        return experiment.network == "???" or Path(experiment.network).name in value
    is_same_data = key == "data" and value in PUBLISHED and of_file in PUBLISHED
    return value == of_file or is_same_data or _is_below(key, SAME_ROW)


def folder_of(
    experiment: Experiment,
    changes: Changes,
    identities: Collection[str],
    before: Path | None = None,
) -> Path:
    """The folder in which the table is written: `tables/NAME`, or one beside it that is named after
    the changes.

    A changed table is written beside if the one in `tables/NAME` has finished runs that the changed
    one leaves out.

    Args:
        identities: of the runs of this table.
        before: the folder that this function returned before, which is not announced again.

    Raises:
        RelposError: the table there is that of another file of this name.
    """
    folder = table_folder(experiment.name)
    _refuse_other_file(folder, experiment)
    words = "-".join([*(changes.rows or ()), *changes.shown])
    if not words or not _finished(folder) - {*identities}:
        return folder
    short = re.sub(r"[^\w.]+", "-", words)[:LONGEST].strip("-.")
    name = f"{folder.name}-{short}"
    # Names that lost characters are told apart by a few digits.
    if len(words) > LONGEST or re.search(r"[^\w.=\[\],-]", words):
        name += f"-{digest(words, 6)}"
    beside = folder.with_name(name)
    if beside != before:
        say(
            f"relpos: {folder} has results that are not asked for here: this table is written "
            f"to {beside}"
        )
    return beside


def _finished(folder: Path) -> set[str]:
    """The identities of the finished runs that the table of a folder shows; none where there is no
    table."""
    if not (folder / FILE).is_file():
        return set()
    try:
        return {
            run.identity
            for runs in runs_by_row(folder).values()
            for run in runs
            if run.state == "finished"
        }
    except RelposError as error:
        say(f"relpos: {error}; it is written anew")
        return set()


def claim_folder(folder: Path, experiment: Experiment) -> None:
    """Notes the experiment file of a table in its folder, before its runs begin."""
    write_text(folder / SOURCE, f"{_source(experiment)}\n")


def _source(experiment: Experiment) -> str:
    """The path of the file, or the name alone for a file of the package, which each machine has in
    another folder."""
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
            f"table={experiment.file}: {folder} is the table of {before}; the file's name is the "
            f"table's: give it another one"
        )

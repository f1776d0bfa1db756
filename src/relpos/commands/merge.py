"""`relpos merge`: finished runs of other machines → this runs folder, so that a table can be completed from runs made in several
places.

Records and results are copied, a few kB a run: what a table, a claim or `relpos order` reads. Weights stay behind unless they are
asked for: without them nothing new can be trained or measured on these networks. Everything is checked before anything is written.
In each run the record is written last: a merge that is killed leaves no run that looks finished, and the same command goes on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relpos.errors import RelposError, plural, say
from relpos.files import LOCK, copied, write_json
from relpos.places import expanded
from relpos.pretrained.files import TOKENIZER
from relpos.ranges import Names
from relpos.readers import check_recorded, check_regular, sha256
from relpos.runs.lock import is_locked, locked
from relpos.runs.run import read_record, runs_root
from relpos.runs.shelf import is_current, leaves, run_folders, run_of

RESULTS = ("config.yaml", "metrics.jsonl", "log.txt", "lengths-*.json", "order/*.json", "dev/*.tsv", "figures/*.png")
"""Files of a run that tables and claims read, beside its record."""
TOKENIZERS = tuple(f"{folder}{pattern}" for folder in ("", "model/") for pattern in TOKENIZER)
WEIGHTS = (
    "model/config.yaml",
    *("model/*.safetensors", "snapshots/*.safetensors", "checkpoint/*.ckpt", "trunk/*.ckpt", "predictions/*.tsv"),
    *("manifest.json", "*.bin", "sources.txt", "corpus/*.txt", "glue/*/*.tsv"),
    *TOKENIZERS,
)
"""The other files that a run has written."""
DATA_STAGES = ("toy", "tokenizer", "store")
"""Stages that are nothing but data: without weights only their configuration is copied, which says what the text was."""
TRAINED = ("pretrain", "finetune")
RECORD, MODEL_CONFIG = "record.json", "model/config.yaml"
ROUNDING = 1e-6
"""Relative difference up to which two metrics are the same."""


def merge(folders: Names, weights: bool) -> str:
    """Copies the finished runs, prints on stderr how many; returns `$RELPOS_RUNS`.

    Args:
        folders: `$RELPOS_RUNS` of other machines, or copies of them.
        weights: copy whole runs: models, snapshots, checkpoints, and stores of tokens.

    Raises:
        RelposError: a folder holds no runs; a record is damaged; the same run has other results in two places; or a run is being
            executed here. Nothing is written then.
    """
    root, given = runs_root(), [expanded(folder) for folder in folders]
    sources: dict[str, list[Path]] = {}
    unfinished = 0
    for folder in given:
        for path in _runs_in(folder, root):
            # A run that is not finished may still be written to while it is read.
            if read_record(path).get("state") == "finished":
                sources.setdefault(f"{path.parent.name}/{path.name}", []).append(path)
            else:
                unfinished += 1
    # All checks first: a conflict that is found half-way would leave a folder of two minds.
    for paths in sources.values():
        for path in paths:
            _check_files(path, weights)
    known = [name for name, paths in sources.items() if _check_places(name, paths, root)]
    changed = {name for name, paths in sources.items() for path in paths if _copy(path, root / name, root, weights)}
    trained = [name for name in sources if name.partition("/")[0] in TRAINED]
    here = [name for name in trained if name in known]
    more = f", {number} of which got more files" if (number := len(changed & {*here})) else ""
    left = f", {plural(unfinished, 'unfinished one')} left out" if unfinished else ""
    new = plural(len(trained) - len(here), "trained run")
    say(f"relpos: {new} copied, {len(here)} {'was' if len(here) == 1 else 'were'} here already{more}{left}")
    return str(root)


def _runs_in(folder: Path, root: Path) -> list[Path]:
    """The folders of the runs in a runs folder."""
    if not folder.is_dir():
        raise RelposError(f"folders={folder}: there is no such folder")
    if folder.resolve() == root:
        raise RelposError(f"folders={folder}: this is RELPOS_RUNS itself, into which the runs go")
    runs = [run for stage in (*DATA_STAGES, *TRAINED) for run in run_folders(stage, folder)]
    if not runs:
        raise RelposError(f"folders={folder}: no runs; a runs folder is expected, with {'/, '.join(TRAINED)}/ in it")
    return runs


def _check_places(name: str, sources: Sequence[Path], root: Path) -> bool:
    """Checks that a run is the same in all places. Returns whether it is here already."""
    records = {path: read_record(path) for path in sources}
    for path, record in records.items():
        _check_record(path, record)
    here = read_record(root / name)
    _check_writable(root / name)
    if (root / name).is_dir() and is_locked(root / name):
        raise RelposError(f"{root / name} is being executed here; merge when it is done")
    is_here = here.get("state") == "finished"
    # The first is kept: what is here, or the first source.
    places = [*([(root / name, here)] if is_here else []), *records.items()]
    first, first_record = places[0]
    for path, record in places[1:]:
        others = _other_files(first_record, record)
        configuration = MODEL_CONFIG if MODEL_CONFIG in others else None
        if key := _differing(first_record, record) or configuration:
            raise RelposError(f"{name} has other results in two places ({key}): {first} and {path}; delete one of them")
        # What was measured of a network, and how it answered; a log and figures differ with each start.
        measured = [file for file in _files(path, weights=False) if file.suffix in (".json", ".tsv") and (first / file).is_file()]
        others += [str(file) for file in measured if sha256(first / file) != sha256(path / file)]
        if others:
            say(f"relpos: {name}: {', '.join(others)} in {path} differs from that in {first}, which is kept")
    return is_here


def _check_writable(target: Path) -> None:
    """Refuses a run's folder here that this process cannot write to."""
    there = next(folder for folder in (target, *target.parents) if folder.is_dir())
    for path in (there, target / LOCK):
        if path.exists() and not os.access(path, os.W_OK):
            raise RelposError(f"{path} cannot be written to, and runs would be merged into it: see RELPOS_RUNS")


def _other_files(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """The files of which two records of one run have different checksums."""
    ours, theirs = (record.get("files") or {} for record in (first, second))
    return sorted(file for file in ours.keys() & theirs.keys() if ours[file] != theirs[file])


def _files(run: Path, weights: bool) -> list[Path]:
    """The files that are copied, below the run's folder, without its record."""
    is_data = run.parent.name in DATA_STAGES
    patterns = (*RESULTS, *WEIGHTS) if weights else ("config.yaml",) if is_data else RESULTS
    # A dot begins what a kill has left half-written.
    return sorted({path.relative_to(run) for pattern in patterns for path in run.glob(pattern) if path.name[0] != "."})


def _check_files(run: Path, weights: bool) -> None:
    """Refuses links in a run's folder among what is copied, hard links too: they may lead to any file of this user's. The folder
    itself may be a link; what it leads to is a run, with its record and its names.
    """
    for file in (*_files(run, weights), Path(RECORD)):
        way = (run / file, *(run / folder for folder in file.parents[:-1]))
        if link := next((path for path in way if path.is_symlink()), None):
            raise RelposError(f"{link} is a link, and only files of the runs themselves are copied: put the file in its place")
        if check_regular(run / file).st_nlink != 1:  # it may be any file of this user's
            raise RelposError(f"{run / file} is a hard link, another name of some file: put a copy in its place")
        if weights:
            check_recorded(run / file)


def _check_record(path: Path, record: dict[str, Any]) -> None:
    lacking = [key for key in ("stage", "identity", "meaning", "inputs", "metrics") if key not in record]
    if lacking:
        raise RelposError(f"damaged record {path / RECORD}: no {lacking[0]}")
    # Earlier code computed other identities, which cannot be checked by today's: such a run is taken as it is.
    if is_current(record) and path.name.rpartition("-")[2] != record["identity"]:
        raise RelposError(f"damaged record {path / RECORD}: it is that of the run {record['identity']}")


def _differing(first: dict[str, Any], second: dict[str, Any]) -> str | None:
    """The first thing in which two records of one run differ; None where they say the same."""
    if first["meaning"] != second["meaning"]:
        return "meaning"
    ours, theirs = (dict(leaves("metrics", record["metrics"])) for record in (first, second))
    return next((key for key in [*ours, *theirs] if not _same(ours.get(key), theirs.get(key))), None)


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    # The same run on two kinds of processors differs in the last digits of its sums.
    numbers = isinstance(ours, int | float) and isinstance(theirs, int | float)
    return math.isclose(ours, theirs, rel_tol=ROUNDING) or (ours != ours and theirs != theirs) if numbers else ours == theirs


def _copy(source: Path, target: Path, root: Path, weights: bool) -> bool:
    """Copies the files that are missing in `target`, the record last. Returns whether any was."""
    needs_record = (weights or source.parent.name not in DATA_STAGES) and read_record(target).get("state") != "finished"
    # What a run has that is not finished here, its log for instance, ends before the results that are copied.
    others = [] if needs_record else _other_files(read_record(target), read_record(source))
    wanted = [file for file in _files(source, weights) if needs_record or not _is_there(target / file)]
    wanted = [file for file in wanted if file.as_posix() not in others]  # the record here has other checksums
    if not wanted and not needs_record:
        return False
    with locked(target, wait=False) as held:
        if not held:
            raise RelposError(f"{target} is being executed here; merge when it is done")
        for file in wanted:
            copied(source / file, target / file)
        if needs_record:
            record = read_record(source)
            # Records name inputs by absolute paths of the machine that wrote them.
            inputs = {name: _here(str(folder), root) for name, folder in record["inputs"].items()}
            write_json(target / RECORD, record | {"inputs": inputs})
    return True


def _is_there(file: Path) -> bool:
    # The name of a checkpoint holds its checksum, which is another each time that a run is made.
    return file.is_file() or (file.suffix == ".ckpt" and any(file.parent.glob("*.ckpt")))


def _here(folder: str, root: Path) -> str:
    """The place here of an input in the other runs folder, a run, its `model` or a snapshot of it; any other place that the user
    named stays as it is."""
    run = run_of(path := Path(folder))
    return str(root / path.relative_to(run.parent.parent)) if run.parent.name in (*DATA_STAGES, *TRAINED) else folder

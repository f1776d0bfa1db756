"""Name, size and SHA-256 of files, cached by path, size and time under $RELPOS_RUNS/cache, so that
a plan is quick."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from relpos.errors import RelposError
from relpos.files import write_json
from relpos.places import folder_of, runs_root
from relpos.readers import read_json, sha256

Described = list[str | int]  # [name, size, sha256]
Identity = dict[str, object]
"""Plain values that change when a text, or pairs, do."""


def described(files: Iterable[Path], below: Path) -> list[Described]:
    """[name relative to `below`, size, SHA-256] of every file, where a file `below` stands for its
    folder; the cache is written where a file was not in it."""
    location = runs_root() / "cache" / "hashes.json"
    try:
        cache: dict[str, str] = read_json(location, dict[str, str], {})
    except RelposError:  # damaged: the hashes are computed again
        cache = {}
    cached = len(cache)
    folder = folder_of(below)
    rows: list[Described] = []
    for path in files:
        stat = path.stat()
        key = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
        if key not in cache:
            cache[key] = sha256(path)
        rows.append([path.relative_to(folder).as_posix(), stat.st_size, cache[key]])
    if len(cache) != cached:
        with suppress(OSError, RelposError):  # without a cache, hashes are computed each time
            write_json(location, cache)
    return rows


def described_folder(folder: Path, below: Path) -> list[Described]:
    """`described`, of all files of a folder but for hidden ones."""
    # Sorted: a folder lists its entries in any order, and the order of the files is part of the
    # identity.
    files = sorted(filter(Path.is_file, folder.rglob("*")))
    hidden = re.compile(r"(^|/)\.")
    shown = (path for path in files if not hidden.search(str(path.relative_to(folder))))
    return described(shown, below)

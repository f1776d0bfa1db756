"""Paths that the user gives: home folders (`~`), and `$RELPOS_RUNS`, the folder below which results
go."""

from __future__ import annotations

import errno
import os
from functools import cache
from pathlib import Path

from relpos.errors import RelposError


def expanded(name: str | Path) -> Path:
    """The path of a name that the user gives; a `~` before it is a home folder, as in a shell.

    Raises:
        RelposError: nobody has that home.
    """
    # Not Path.expanduser: it ends in an error of Python's own, and takes away the `./` that tells a
    # file from a home.
    path = os.path.expanduser(name)
    if path.startswith("~") and not os.path.lexists(path):
        user = path.partition("/")[0]
        hint = ""
        if user == "~":
            hint = "; HOME is not set"
        raise RelposError(f"{name}: there is no such file or folder, nor a home {user}{hint}")
    return Path(path)


def folder_of(path: Path) -> Path:
    """A folder itself, of a file the folder that it lies in."""
    return path.parent if path.is_file() else path


def runs_root() -> Path:
    """`$RELPOS_RUNS`, by default `./runs`.

    Raises:
        RelposError: it is empty, a file, or a link that leads to itself.
    """
    # The working directory is an argument, so that the cache does not outlive a change of it; nor
    # of the home.
    return _resolved(os.getenv("RELPOS_RUNS", "runs"), os.getcwd(), os.getenv("HOME"))


def make_runs_root() -> None:
    """Makes `$RELPOS_RUNS`. From here on the variable has no `~` any more, which Hydra would not
    read.

    Raises:
        RelposError: it cannot be made.
    """
    try:
        runs_root().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RelposError(
            f"RELPOS_RUNS={os.getenv('RELPOS_RUNS', 'runs')}: cannot make this folder "
            f"({error.strerror})"
        ) from error
    os.environ["RELPOS_RUNS"] = str(runs_root())


@cache
def _resolved(folder: str, below: str, home: str | None) -> Path:
    if not folder:
        raise RelposError("RELPOS_RUNS is empty: name a folder, or unset it for ./runs")
    try:
        path = Path(below, expanded(folder))
    except RelposError as error:
        raise RelposError(f"RELPOS_RUNS={error}") from None
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RelposError(
                f"RELPOS_RUNS={folder}: links lead in a circle there; name another folder"
            ) from None
    path = path.resolve()
    if path.exists() and not path.is_dir():
        raise RelposError(f"RELPOS_RUNS={folder}: a folder is expected, this is a file")
    return path

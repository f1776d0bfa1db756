"""Files and folders that are whole or absent: written beside their place, flushed to disk, renamed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from relpos.errors import RelposError, one_line
from relpos.places import runs_root

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY
"""Of `os.open`: a new file, and nothing where there is one or a link of this name."""
TEMPORARY = re.compile(r"\..+\.\d+(\.[0-9a-f]{8})?")
"""What `replacing` calls its files."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path in the same folder; on success it takes the place of `path`, on failure nothing is left.

    Raises:
        RelposError: where a link leads to the folder, or the disk is full or refuses the file; whatever stood at `path` before is
            untouched.
    """
    # In the same folder, because a rename between file systems is a copy; no pattern finds a name that ends in such a number.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        check_place(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(temporary, _NEW, 0o666))
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)
    # torch reports a full disk as RuntimeError, safetensors as its own class: whatever fails in here is about the file.
    except Exception as error:
        if isinstance(error, RelposError):
            raise
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def remove_left(folder: Path, age: float = 0.0) -> None:
    """Removes the temporary files of `replacing` that a kill has left in a folder and below it.

    Args:
        age: seconds for which nothing has been written to them; 0 where no other process writes.
    """
    for path in folder.rglob(".*"):
        with suppress(OSError):
            if TEMPORARY.fullmatch(path.name) and path.is_file() and time.time() - path.lstat().st_mtime >= age:
                path.unlink()


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder beside `path`; on success it takes the place of `path`, on failure nothing of it is left.

    Only one process at a time may write a folder: it begins by removing what a killed process has left behind.

    Raises:
        RelposError: where a link leads to the folder, or the disk is full or refuses a file; whatever stood at `path` before is
            untouched.
    """
    temporary = path.with_name(f".{path.name}.partial")
    refuse_links(_below_runs(path.parent))
    try:
        _remove(temporary)
        temporary.mkdir(parents=True)
        yield temporary
        for file in temporary.rglob("*"):
            _flush(file)
        # A rename cannot replace a folder that has files in it.
        _remove(path)
        os.replace(temporary, path)
        _flush(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def opened(path: Path, mode: str, **more: Any) -> IO[Any]:
    """Opens a file to write it anew (`w`) or to go on at its end (`a`), and never another file to which a link leads.

    Raises:
        RelposError: a link leads to its folder; or what is to go on is a link, a pipe or a device, or has another name besides.
        OSError: of the system.
    """
    check_place(path)
    if mode[0] == "w":
        path.unlink(missing_ok=True)
    elif os.path.lexists(path) and not (stat.S_ISREG((about := path.lstat()).st_mode) and about.st_nlink == 1):
        raise RelposError(f"{path} is not a file of its own, but a link, a pipe or a device: delete it")
    # A file that has come there since is not followed either, nor waited for.
    flags = os.O_EXCL if mode[0] == "w" else os.O_NOFOLLOW | os.O_NONBLOCK
    return open(path, mode, opener=lambda name, given: os.open(name, given | flags, 0o666), **more)


def copied(source: Path, target: Path) -> None:
    """Copies a regular file, whole or not at all.

    Raises:
        RelposError: it is a link, a pipe or a device, or cannot be read; or as `replacing`.
    """
    try:
        with open(source, "rb", opener=lambda name, given: os.open(name, given | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG((about := os.fstat(file.fileno())).st_mode) or about.st_nlink != 1:
                raise RelposError(f"{source} is not copied: it is no regular file of its own")
            with replacing(target) as temporary, temporary.open("wb") as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
    except OSError as error:
        raise RelposError(f"{source} is not copied: {error.strerror}") from error


def check_place(path: Path) -> None:
    """Refuses a file to whose folder a link leads: results would be written elsewhere. `$RELPOS_RUNS` itself may be a link, and so
    may the folders above one that the user names.

    Raises:
        RelposError: names the link and where it leads.
    """
    refuse_links([path.parent, *_below_runs(path.parent)])


def _below_runs(folder: Path) -> list[Path]:
    """This folder and those above it, as far as they are below `$RELPOS_RUNS`."""
    root, folder = runs_root(), folder.absolute()
    return [each for each in (folder, *folder.parents) if root in each.parents]


def refuse_links(paths: Iterable[Path]) -> None:
    """Refuses links among the places where results go.

    Raises:
        RelposError: names the link and where it leads.
    """
    for path in paths:
        if path.is_symlink():
            raise RelposError(f"{path} is a link to {os.readlink(path)}: nothing is written there; delete it")


def _remove(path: Path) -> None:
    """Removes a folder with all that is in it, or the link that has its name."""
    if path.is_symlink():
        path.unlink()
    shutil.rmtree(path, ignore_errors=True)


def cannot_write(path: Path, error: Exception) -> RelposError:
    """The error for a failure to write `path`, in one line: the path, how much disk space is free, and the reason."""
    free = shutil.disk_usage(next(folder for folder in (path, *path.parents) if folder.is_dir())).free / 1e6
    # torch closes its file after the system has refused it something, and complains of that.
    first: BaseException | None = error
    while first and not isinstance(first, OSError):
        first = first.__cause__ or first.__context__
    reason = getattr(first, "strerror", None) or one_line(error)
    return RelposError(f"cannot write {path} ({free:,.0f} MB free): {reason}")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What the system refuses in here is told in one line, with `path` where the system names no file.

    Raises:
        RelposError: in place of an OSError.
    """
    try:
        yield
    except (BrokenPipeError, ConnectionError):  # of another process, and about no file
        raise
    except OSError as error:
        raise RelposError(f"{error.filename or path}: {error.strerror or one_line(error)}") from error


def write_json(path: Path, content: Any) -> None:
    """Writes `content` as indented JSON, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_text(path: Path, content: str) -> None:
    """Writes `content`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


def digest(content: object, digits: int = 8) -> str:
    """The first hexadecimal digits of the SHA-256 of plain values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:digits]


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # Of a folder, too: the new name of a file is in it, and would be lost with the power.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

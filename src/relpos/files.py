"""Files and folders that are whole or absent: written beside their place, flushed to disk,
renamed."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO, Any

from relpos.errors import RelposError, one_line
from relpos.places import runs_root

TEMPORARY = re.compile(r"\..+\.\d+(\.[0-9a-f]{8})?")
"""Names of the temporary files and folders of `replacing` and `replacing_folder`."""
HOUR = 3600.0
"""Seconds in which a small file, or an exported network, is written, however slow the disk."""
LOCK = "claim.lock"
"""In a run's folder: its lock, which `relpos.runs.lock` takes."""
_locked: dict[Path, tuple[int, int] | None] = {}
"""Folder that this process has locked → device and number of the lock file, which no other file has
while it is open."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path in the same folder; on success it takes the place of `path`, on
    failure nothing is left.

    Raises:
        RelposError: where a link leads to the folder, or the disk is full or refuses the file;
            whatever stood at `path` before is untouched.
    """
    # In the same folder, because a rename between file systems is a copy; no pattern finds a name
    # that ends in such a number.
    temporary = _temporary(path)
    try:
        check_place(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
        yield temporary
        _flush(temporary)
        check_locked(path)
        os.replace(temporary, path)
        _flush(path.parent)
    except RelposError:
        raise
    # torch reports a full disk as RuntimeError, safetensors as its own class: whatever fails in
    # here is about the file.
    except Exception as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _temporary(path: Path) -> Path:
    """A name beside `path` that no other process takes."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")


def remove_left(folder: Path, age: float = 0.0, pattern: str = "**/.*") -> None:
    """Removes what a kill of `replacing` or `replacing_folder` has left in a folder and below it.

    Args:
        folder: where they have written.
        age: seconds for which nothing has been written to it; 0 where no other process writes.
        pattern: of the names that are looked at.
    """
    for path in folder.glob(pattern):
        with suppress(OSError):
            if TEMPORARY.fullmatch(path.name) and time.time() - path.lstat().st_mtime >= age:
                remove(path)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder beside `path`; on success it takes the place of `path`, which must be
    empty by then, or not there; on failure nothing of it is left. What a kill has left is removed
    by the next process that writes `path` an hour later.

    Raises:
        RelposError: where a link leads to the folder, it has files, or the disk is full or refuses
            a file; whatever stood at `path` before is untouched.
    """
    temporary = _temporary(path)
    check_place(path / LOCK)
    try:
        temporary.mkdir(parents=True)
        remove_left(path.parent, HOUR, f".{escape(path.name)}.*")
        yield temporary
        for file in temporary.rglob("*"):
            _flush(file)
        check_locked(path)
        # The system refuses to put it over a folder with files, such as that of a process that was
        # as quick.
        os.replace(temporary, path)
        _flush(path.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            meanwhile = "has files, which another process has written meanwhile"
            raise RelposError(f"{path} {meanwhile}: name another folder") from error
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def opened(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Opens a file to write it anew (`w`) or to go on at its end (`a`), and never another file to
    which a link leads.

    Raises:
        RelposError: a link leads to its folder; or what is to go on is a link, a pipe or a device,
            or has another name besides.
        OSError: of the system.
    """
    check_place(path)
    # The flags refuse a link or a pipe that has come here since the check.
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    if mode[0] == "w":
        path.unlink(missing_ok=True)
        flags = os.O_EXCL
    elif os.path.lexists(path) and not (
        stat.S_ISREG((about := path.lstat()).st_mode) and about.st_nlink == 1
    ):
        raise RelposError(
            f"{path} is not a file of its own, but a link, a pipe or a device: delete it"
        )

    def opener(name: str, mode_flags: int) -> int:
        descriptor = os.open(name, mode_flags | flags, 0o666)
        # once more: in between the folder may have become another process's, and the file with it
        check_locked(path)
        return descriptor

    return open(path, mode, opener=opener, **options)


def copied(source: Path, target: Path) -> None:
    """Copies a regular file, whole or not at all.

    Raises:
        RelposError: it is a link, a pipe or a device, or cannot be read; or as `replacing`.
    """
    try:
        with open(
            source,
            "rb",
            opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK),
        ) as file:
            if not stat.S_ISREG((about := os.fstat(file.fileno())).st_mode) or about.st_nlink != 1:
                raise RelposError(f"{source} is not copied: it is no regular file of its own")
            with replacing(target) as temporary, temporary.open("wb") as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
    except OSError as error:
        raise RelposError(f"{source} is not copied: {error.strerror}") from error


def note_locked(folder: Path, held: bool) -> None:
    """Notes that this process holds the lock of a folder, or does no longer."""
    if held:
        _locked[folder.absolute()] = _file(folder / LOCK)
    else:
        _locked.pop(folder.absolute(), None)


def check_locked(path: Path) -> None:
    """Refuses a file in a folder that this process has locked and that somebody has deleted since,
    with its lock or the lock alone: another process may have begun it anew.

    Raises:
        RelposError: names what is gone.
    """
    path = path.absolute()
    for folder in (path, *path.parents):
        lock = folder / LOCK
        if folder in _locked and _locked[folder] != _file(lock):
            gone = folder
            if folder.is_dir() and not os.path.lexists(lock):
                gone = lock
            raise RelposError(
                f"{gone} is gone: it was deleted while the run was under way; give "
                f"the same command again"
            )


def _file(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino


def check_place(path: Path) -> None:
    """Refuses a file to whose folder a link leads: results would be written elsewhere.
    `$RELPOS_RUNS` itself may be a link, and so may the folders above one that the user names.

    Raises:
        RelposError: names the link and where it leads; or see `check_locked`.
    """
    check_locked(path)
    root, above = runs_root(), path.absolute().parents
    refuse_links([path.parent, *(folder for folder in above if root in folder.parents)])


def refuse_links(paths: Iterable[Path]) -> None:
    """Refuses links among the places where results go.

    Raises:
        RelposError: names the link and where it leads.
    """
    for path in paths:
        if path.is_symlink():
            raise RelposError(
                f"{path} is a link to {os.readlink(path)}: nothing is written there; delete it"
            )


def remove(path: Path) -> None:
    """Removes a folder with all that is in it, or the file or link of this name; nothing where
    there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def cannot_write(path: Path, error: Exception) -> RelposError:
    """The error for a failure to write `path`, in one line: the path, how much disk space is free,
    and the reason."""
    folder = next(folder for folder in (path, *path.parents) if folder.is_dir())
    free = shutil.disk_usage(folder).free / 1e6
    # torch closes its file after the system has refused it something, and complains of that.
    first: BaseException | None = error
    while first and not isinstance(first, OSError):
        first = first.__cause__ or first.__context__
    reason = getattr(first, "strerror", None) or one_line(error)
    return RelposError(f"cannot write {path} ({free:,.0f} MB free): {reason}")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An error of the system in here becomes one line, with `path` where the system names no file.

    Raises:
        RelposError: in place of an OSError.
    """
    try:
        yield
    except (BrokenPipeError, ConnectionError):  # of another process, and about no file
        raise
    except OSError as error:
        raise RelposError(
            f"{error.filename or path}: {error.strerror or one_line(error)}"
        ) from error


def write_json(path: Path, content: object) -> None:
    """Writes `content` as indented JSON, whole or not at all."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def write_text(path: Path, content: str) -> None:
    """Writes `content`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # Folders, too: the new name of a file is in its folder, and would be lost with the power.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

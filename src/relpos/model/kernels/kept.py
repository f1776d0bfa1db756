"""Compiled code, and what came of trying it, kept between processes where this user alone can have
written it.

Loading a library runs its code, and a truncated one kills the process by a signal. So a file is
read only where it and its folder belong to this user and nobody else may write to them, and only
where its content has the checksum in its name.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relpos.errors import say

_FOR_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def folder() -> Path:
    """That of this package among the user's caches."""
    return Path(os.getenv("XDG_CACHE_HOME") or Path.home() / ".cache") / "relpos"


@contextmanager
def own_folder(folder: Path, make: bool) -> Iterator[int]:
    """A descriptor of the folder, which is then readable for this user alone.

    Raises:
        OSError: it is a link, belongs to another user, can be written by others, or is missing and
            cannot be made.
    """
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink():
        raise OSError(f"{folder} is a link")
    # All that follows goes through the descriptor: whoever exchanges the folder after the check
    # exchanges nothing that is read.
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if fault := _fault(os.fstat(place)):
            raise OSError(f"{folder} {fault}")
        os.fchmod(place, 0o700)
        yield place
    finally:
        os.close(place)


def read(place: int, stem: str, suffix: str = ".so") -> bytes | None:
    """The content of the file with this stem; None where there is none. One that cannot be trusted
    is named and removed."""
    for name in sorted(os.listdir(place)):
        if name.startswith(f"{stem}-") and name.endswith(suffix):
            try:
                return _trusted(place, name)
            except OSError as error:
                say(f"relpos: {name} is removed from the cache, to be made again: {error}")
                os.unlink(name, dir_fd=place)
    return None


def write(place: int, stem: str, content: bytes, suffix: str = ".so") -> None:
    """Keeps a file under its stem and its checksum; whole or not at all."""
    temporary = f".{stem}.{os.getpid()}"
    with open(
        temporary, "wb", opener=lambda name, flags: os.open(name, flags, 0o600, dir_fd=place)
    ) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(
        temporary,
        f"{stem}-{_checksum(content)}{suffix}",
        src_dir_fd=place,
        dst_dir_fd=place,
    )


def _trusted(place: int, name: str) -> bytes:
    if stat.S_ISLNK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
        raise OSError("a link")
    # Without O_NONBLOCK the opening of a named pipe would wait for a writer.
    with open(
        name,
        "rb",
        opener=lambda name, flags: os.open(
            name,
            flags | os.O_NOFOLLOW | os.O_NONBLOCK,
            dir_fd=place,
        ),
    ) as file:
        status = os.fstat(file.fileno())
        if fault := "is no file" if not stat.S_ISREG(status.st_mode) else _fault(status):
            raise OSError(f"the file {fault}")
        content = file.read()
    if Path(name).stem.rpartition("-")[2] != _checksum(content):
        raise OSError("the file is damaged")
    return content


def _fault(status: os.stat_result) -> str | None:
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    if status.st_mode & _FOR_OTHERS:
        return "can be written by other users"
    return None


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]

"""The names of checkpoints, and the newest whole one of a folder.

A name holds the first digits of the file's SHA-256, so that a checkpoint and its checksum cannot be
separated.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from relpos.errors import RelposError
from relpos.readers import sha256

LAST = "last.ckpt"
"""The path for which Lightning is asked; the file's name has the checksum as well."""
UNNAMED = "writing.ckpt"
"""A whole file before its checksum is known."""
HALF = ".*.ckpt.*"
"""Pattern of what a kill has left half written."""
WHOLE = "*.ckpt"
"""Pattern of every checkpoint, also of one whose checksum is not known yet."""


def checked_name(path: Path, written: Path) -> Path:
    """The path of a checkpoint with the checksum of the file that was written for it."""
    return path.with_name(f"{path.stem}-{sha256(written)[:16]}.ckpt")


def by_age(folder: Path) -> list[Path]:
    """The checkpoints under their last names, the newest first; two where a kill came before the
    earlier one was deleted."""
    files = []
    for path in folder.glob("last-*.ckpt"):
        with suppress(FileNotFoundError):  # the run that writes here has deleted it meanwhile
            files.append((path.stat().st_mtime_ns, path))
    # By time, because a name holds a hash, which has no order.
    return [path for _, path in sorted(files, reverse=True)]


def newest(folder: Path) -> Path | None:
    """The newest whole checkpoint in `folder`, or None.

    Raises:
        RelposError: there are checkpoints, and none has the content that its name promises.
    """
    files = by_age(folder)
    for path in files:
        if path == checked_name(path.with_name(LAST), path):
            return path
    if files:
        raise RelposError(
            f"damaged checkpoint {files[0]}: its content is not what was written; delete it to "
            f"start anew"
        )
    return None

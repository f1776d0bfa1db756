"""Files and folders that are whole or absent: written beside their place, flushed to disk, renamed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from relpos.errors import RelposError


def read_yaml(path: Path) -> Any:
    """The content of a YAML file, by libyaml where PyYAML has it, which is ten times as fast.

    Raises:
        yaml.YAMLError: it is no YAML.
        OSError: it cannot be read.
    """
    import yaml

    return yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path in the same folder; on success it takes the place of `path`, on failure nothing is left.

    Raises:
        RelposError: where the disk is full or refuses the file; whatever stood at `path` before is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
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


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder beside `path`; on success it takes the place of `path`, on failure nothing of it is left.

    Only one process at a time may write a folder: it begins by removing what a killed process has left behind.

    Raises:
        RelposError: where the disk is full or refuses a file; whatever stood at `path` before is untouched.
    """
    temporary = path.with_name(f".{path.name}.partial")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        yield temporary
        for file in temporary.rglob("*"):
            _flush(file)
        shutil.rmtree(path, ignore_errors=True)
        os.replace(temporary, path)
        _flush(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def cannot_write(path: Path, error: Exception) -> RelposError:
    """The error for a failure to write `path`, in one line: the path, how much disk space is free, and the reason."""
    free = shutil.disk_usage(next(folder for folder in (path, *path.parents) if folder.is_dir())).free / 1e6
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return RelposError(f"cannot write {path} ({free:,.0f} MB free): {reason.splitlines()[0]}")


def write_json(path: Path, content: Any) -> None:
    """Writes `content` as indented JSON, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_text(path: Path, content: str) -> None:
    """Writes `content`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Where a folder's own code runs, transformers copies that code into what it saves."""

from __future__ import annotations

from pathlib import Path


def write(folder: Path, architecture: object) -> dict[str, str]:
    """Writes nothing."""
    return {}

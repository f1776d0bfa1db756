"""Where a folder's own code runs, transformers copies that code into what it saves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Writes nothing."""
    return {}

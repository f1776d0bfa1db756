"""The classes that `config.json` names."""

from __future__ import annotations

from typing import Any

NAMED: dict[str, Any] = {}

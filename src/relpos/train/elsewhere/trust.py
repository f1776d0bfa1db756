"""What `config.json` names is looked up in one table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

NAMED: dict[str, Any] = {}
"""The class of each name in `config.json`; the entries follow at the end of the file."""


def constructor(node: Mapping[str, Any], kind: str) -> Any:
    """The class that a node of the configuration names, with the node's other keys as arguments."""

    def argument(value: Any) -> Any:
        if isinstance(value, list):
            return [argument(item) for item in value]
        return (
            constructor(value, kind) if isinstance(value, dict) and "_target_" in value else value
        )

    return partial(
        NAMED[node["_target_"]],
        **{name: argument(value) for name, value in node.items() if name[0] != "_"},
    )

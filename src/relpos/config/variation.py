"""Configurations that differ in a few overrides from one that is composed already.

Hydra takes a tenth of a second a composition; a table has dozens of rows, and the claims ask for some eighty networks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf

from relpos.config.conf import conf_dir

OPTION = re.compile(r"(\w+)=(\w+)")
NOT_ALONE = re.compile(r"^defaults:|@package", re.MULTILINE)
"""Marks option files whose meaning is more than their content: they bring other options or move to another place."""


def varied(cfg: DictConfig, overrides: Sequence[str]) -> DictConfig | None:
    """A copy of a composed configuration with `overrides` behind its own, as Hydra would compose it; it is not checked.

    Args:
        cfg: composed without overrides about the groups and keys that `overrides` name.
        overrides: `GROUP=OPTION`, of groups that no default of another one names (as `recipe: ${size}` does), and `KEY=VALUE`.

    Returns:
        None where only Hydra can do it: unknown options and keys, options that bring others with them, groups of keys, `+` and `~`.

    >>> from relpos.config.compose import compose
    >>> varied(compose("params"), ["kernels=3", "position=tisa"]).position.kernels
    3
    """
    files = {override: file for override in overrides if (file := _file_of(override, cfg)) is not None}
    if any(NOT_ALONE.search(file.read_text(encoding="utf-8")) for file in files.values()):
        return None
    try:
        parsed = OverridesParser.create().parse_overrides([override for override in overrides if override not in files])
    except OverrideParseException:
        return None
    result = cfg.copy()
    for override, file in files.items():
        result[override.partition("=")[0]] = OmegaConf.load(file)
    for change in parsed:
        if not _changes_one_value(change, result):
            return None
        OmegaConf.update(result, change.key_or_group, change.value())
    return result


def _changes_one_value(override: Override, cfg: DictConfig) -> bool:
    if override.type is not OverrideType.CHANGE or override.is_sweep_override() or override.package is not None:
        return False
    parent, _, key = override.key_or_group.rpartition(".")
    node = OmegaConf.select(cfg, parent) if parent else cfg
    return isinstance(node, DictConfig) and key in node and not OmegaConf.is_config(node._get_node(key))


def _file_of(override: str, cfg: DictConfig) -> Path | None:
    """The option file of `GROUP=OPTION`."""
    option = OPTION.fullmatch(override)
    if option is None or option[1] not in cfg or not (conf_dir() / option[1]).is_dir():
        return None
    file = conf_dir() / option[1] / f"{option[2]}.yaml"
    return file if file.is_file() else None

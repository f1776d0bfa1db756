"""`config.json` ↔ our configuration: a family's template, with a `Key` for every value of the file, read in both directions."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from relpos.errors import RelposError
from relpos.model.encoder import Encoder
from relpos.pretrained.family import Family, Key
from relpos.trust import find


def from_config(family: Family, config: Mapping[str, Any]) -> dict[str, Any]:
    """Our configuration, `size`, `position`, `conv` and `vocabulary`, from that of a `config.json`.

    Raises:
        RelposError: a key has a value that our networks cannot express.
    """
    # Versions of transformers name and nest the same keys differently.
    config = family.normalised(config)
    for name, needed in family.constants.items():
        if config.get(name, needed) not in (needed, None):  # a key without a value says nothing
            raise RelposError(f"{name}={config[name]}: only {needed} is supported for {family.model_type}")
    settings: dict[str, Any] = _filled(family.settings, config)
    return settings


def to_config(family: Family, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The `config.json` of a network with our configuration `settings`, without the keys of its head.

    Raises:
        RelposError: the family cannot express it; names the key.
    """
    config: dict[str, Any] = {"model_type": family.model_type} | dict(family.constants)
    decided: dict[str, str] = {}
    for path, leaf, value in _leaves(family.settings, settings, ""):
        if not isinstance(leaf, Key):
            if value != leaf:
                raise RelposError(f"{family.model_type} has {path}={leaf}, this network {path}={value}")
            continue
        written = leaf.write(value)
        # Two of our values may come from one key, as width and embedding width of BERT.
        if config.get(leaf.name, written) != written:
            other = decided[leaf.name]
            raise RelposError(f"{family.model_type} has one {leaf.name}, this network {path}={value} and another {other}")
        config[leaf.name], decided[leaf.name] = written, path
    return config


def _filled(template: Any, config: Mapping[str, Any]) -> Any:
    if isinstance(template, Key):
        value = template.of(config)
        try:
            return template.read(value)
        except RelposError as error:
            raise RelposError(f"{template.name}={value}: {error}") from None
        except (TypeError, ValueError):
            raise RelposError(f"{template.name}={value!r} is not understood") from None
    if isinstance(template, Mapping):
        return {name: _filled(part, config) for name, part in template.items()}
    if isinstance(template, list):
        return [_filled(part, config) for part in template]
    return template


def _leaves(template: Any, ours: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Path in our configuration, what the template has there, and our value."""
    if isinstance(template, Mapping):
        for name, part in template.items():
            yield from _leaves(part, _value(ours, path, name), f"{path}.{name}" if path else name)
    elif isinstance(template, list):
        # First: the caller refuses another number of parts before `zip` fails.
        yield f"len({path})", len(template), len(ours)
        for place, (part, own) in enumerate(zip(template, ours, strict=True)):
            yield from _leaves(part, own, f"{path}.{place}")
    else:
        yield path, template, ours


def _value(node: Mapping[str, Any], path: str, name: str) -> Any:
    """A value of our configuration at this path; one that is left out has the default of the constructor's argument."""
    if name in node:
        return node[name]
    target: Any = Encoder
    if path != "size":
        target = find(node["_target_"], path.partition(".")[0], f"{path}._target_")
    return inspect.signature(target).parameters[name].default

"""The folder `conf`: a command is a file, a group is a folder, an option is a file in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relpos.readers import Plain

PACKAGE = re.compile(r"# @package (?P<name>[\w.]+)\n")
"""First line of an option whose keys belong to another group, as those of `block` to `size`."""
HEAD = re.compile(r"# relpos (?P<name>[a-z-]+): (?P<says>.*)\n# relpos (?P=name) (?P<example>.*)\n")
"""First lines of a command's file."""
OWN: list[str] = []
"""Folders, as URLs, with the user's own options (`--config-dir`), which Hydra also searches."""


@contextmanager
def also_in(folders: Iterable[str]) -> Iterator[None]:
    """Lets configurations composed meanwhile, as those of a table's rows, use options in these
    folders, too."""
    OWN[:] = folders
    try:
        yield
    finally:
        OWN.clear()


def conf_dir() -> Path:
    """The folder of the configuration: inside the installed package, or beside `src` in a
    checkout."""
    return shipped("conf")


@cache
def shipped(name: str) -> Path:
    """A folder that ships with the package (`conf`, `experiments`)."""
    package = Path(__file__).resolve().parent.parent
    inside = package / name
    return inside if inside.is_dir() else package.parents[1] / name


@cache
def options() -> Mapping[str, list[str]]:
    """Group → its options: the folders of `conf` and their files."""
    return {
        folder.name: sorted(file.stem for file in folder.glob("*.yaml"))
        for folder in conf_dir().iterdir()
        if folder.is_dir() and folder.name != "hydra"
    }


@cache
def package_of(group: str, option: str) -> str:
    """The group to which an option's keys belong: its own, unless its file names another."""
    file = conf_dir() / group / f"{option}.yaml"
    if file.is_file() and (match := PACKAGE.match(file.read_text(encoding="utf-8"))):
        return match["name"]
    return group


@cache
def conf_file(name: str) -> Plain:
    """The content of `conf/NAME.yaml`, cached because a table needs it hundreds of times."""
    from relpos.readers import read_yaml

    return dict(read_yaml(conf_dir() / f"{name}.yaml"))


def based_on(content: Plain) -> list[str]:
    """The options on which an option is based, from its content."""
    return [name for name in content.get("defaults", ()) if name != "_self_"]


@cache
def keys_of(command: str) -> frozenset[str]:
    """The keys of the top level of a command's configuration: those in its file, and its groups."""
    # Read from the files, because composing would take a tenth of a second.
    return frozenset({*groups_of(command), *conf_file(command)} - {"defaults"})


def key_of(override: str) -> str:
    """The dotted key of an override, without the signs of Hydra's before it.

    >>> key_of("+finetune.steps=5")
    'finetune.steps'
    """
    return override.lstrip("+~").partition("=")[0]


def defaults_of(command: str) -> Plain:
    """Group → the option of it that a command has by default, in the order of its file; of
    `recipe@pretrain.recipe`, too."""
    defaults: Plain = {}
    for entry in conf_file(command)["defaults"]:
        if isinstance(entry, dict):
            defaults |= entry
    return defaults


def groups_of(command: str) -> list[str]:
    """The groups of a command, in the order of its file."""
    return [key for key in defaults_of(command) if "@" not in key]


@cache
def commands() -> dict[str, tuple[str, str]]:
    """Subcommand → its description and example arguments, from the first two lines of its file in
    `conf`."""
    heads = (
        HEAD.match(path.read_text(encoding="utf-8")) for path in sorted(conf_dir().glob("*.yaml"))
    )
    return {head["name"]: (head["says"], head["example"]) for head in heads if head}


def function_of(command: str) -> Callable[..., object]:
    """`pretrain` → the function `pretrain` of `relpos.commands.pretrain`, whose annotations check
    the keys.

    It is imported by name, because commands, like most classes that a `_target_` names, are on a
    higher floor.
    """
    function: Callable[..., object] = getattr(import_module(f"relpos.commands.{command}"), command)
    return function

"""The folder `conf`: a command is a file, a group is a folder, an option is a file in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGE = re.compile(r"# @package (?P<name>[\w.]+)\n")
"""How an option begins whose keys belong to another group, as those of `block` to `size`."""
HEAD = re.compile(r"# relpos (?P<name>[a-z-]+): (?P<says>.*)\n# relpos (?P=name) (?P<example>.*)\n")
"""How the file of a command begins."""


OWN: list[str] = []
"""Folders with options of the user's own (`--config-dir`), in which Hydra looks besides."""


@contextmanager
def also_in(folders: Iterable[str]) -> Iterator[None]:
    """Rows that are composed meanwhile, as those of a table, may name options in these folders, too."""
    OWN[:] = folders
    try:
        yield
    finally:
        OWN.clear()


def conf_dir() -> Path:
    """The folder of the configuration: inside the installed package, or beside `src` in a checkout."""
    return shipped("conf")


@cache
def shipped(name: str) -> Path:
    """A folder that ships with the package (`conf`, `experiments`)."""
    package = Path(__file__).resolve().parent.parent
    inside = package / name
    return inside if inside.is_dir() else package.parents[1] / name


@cache
def options() -> Mapping[str, list[str]]:
    """The groups and their options, as the files lie in `conf`."""
    folders = (folder for folder in conf_dir().iterdir() if folder.is_dir() and folder.name != "hydra")
    return {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}


@cache
def package_of(group: str, option: str) -> str:
    """The group that an option's keys belong to: its own, unless its file says another."""
    file = conf_dir() / group / f"{option}.yaml"
    match = PACKAGE.match(file.read_text(encoding="utf-8")) if file.is_file() else None
    return match["name"] if match else group


@cache
def conf_file(name: str) -> Mapping[str, Any]:
    """What `conf/NAME.yaml` says, read once: a table asks hundreds of times."""
    from relpos.readers import read_yaml

    return dict(read_yaml(conf_dir() / f"{name}.yaml"))


@cache
def keys_of(command: str) -> frozenset[str]:
    """The keys of the top level of a command's configuration: those in its file, and its groups."""
    # Read from the files, because composing would take a tenth of a second.
    return frozenset({*groups_of(command)} | conf_file(command).keys() - {"defaults"})


def key_of(override: str) -> str:
    """The dotted key of an override, without the signs of Hydra's before it.

    >>> key_of("+finetune.steps=5")
    'finetune.steps'
    """
    return override.lstrip("+~").partition("=")[0]


def groups_of(command: str) -> list[str]:
    """The groups of a command, in the order of its file."""
    entries = conf_file(command)["defaults"]
    return [key for entry in entries if isinstance(entry, dict) for key in entry if "@" not in key]


@cache
def commands() -> dict[str, tuple[str, str]]:
    """Subcommand → what it does, and example arguments, as the first two lines of its file in `conf` say."""
    heads = (HEAD.match(path.read_text(encoding="utf-8")) for path in sorted(conf_dir().glob("*.yaml")))
    return {head["name"]: (head["says"], head["example"]) for head in heads if head}


def function_of(command: str) -> Callable[..., Any]:
    """`pretrain` → the function `pretrain` of `relpos.commands.pretrain`, whose signature says what the
    keys may hold.

    The commands lie on a higher floor, as most classes that a `_target_` names: they are found by name, when one is called for.
    """
    function: Callable[..., Any] = getattr(import_module(f"relpos.commands.{command}"), command)
    return function

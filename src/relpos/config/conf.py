"""The folder `conf`: a command is a file, a group is a folder, an option is a file in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from relpos.files import read_yaml


def conf_dir() -> Path:
    """The folder of the configuration: inside the installed package, or beside `src` in a checkout."""
    return shipped("conf")


def shipped(name: str) -> Path:
    """A folder that ships with the package (`conf`, `experiments`)."""
    package = Path(__file__).resolve().parent.parent
    inside = package / name
    return inside if inside.is_dir() else package.parents[1] / name


def options() -> dict[str, list[str]]:
    """The groups and their options, as the files lie in `conf`."""
    folders = (folder for folder in conf_dir().iterdir() if folder.is_dir() and folder.name != "hydra")
    return {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}


@cache
def keys_of(command: str) -> frozenset[str]:
    """The keys of the top level of a command's configuration: those in its file, and its groups."""
    content = read_yaml(conf_dir() / f"{command}.yaml")
    groups = {key for entry in content["defaults"] if isinstance(entry, dict) for key in entry if "@" not in key}
    return frozenset(groups | content.keys() - {"defaults"})

"""The code of one network as Python files beside `config.json`, which open it with torch and
transformers alone.

The files are our own modules, those that the network needs directly or through others, with
relative imports. Where a folder does without one of our modules or libraries, `elsewhere/` has what
stands in its place. relpos writes such files and never runs them: it reads `config.json` and uses
its own classes.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from relpos.errors import RelposError
from relpos.files import write_text
from relpos.model.architecture import Architecture
from relpos.ranges import Node
from relpos.trust import find, targets

CLASSES = {
    "AutoConfig": "RelposConfig",
    "AutoModel": "RelposModel",
    "AutoModelForMaskedLM": "RelposForMaskedLM",
    "AutoModelForCausalLM": "RelposForCausalLM",
    "AutoModelForSequenceClassification": "RelposForSequenceClassification",
}
"""Class of transformers → class of the code that serves it."""
SERVING = "relpos.train.huggingface"
"""The module with these classes."""
FILES = {SERVING: "modeling_relpos", "relpos.train.huggingface_config": "configuration_relpos"}
"""Module → its file, where another name is usual."""
AUTO_MAP = {theirs: f"{FILES[SERVING]}.{ours}" for theirs, ours in CLASSES.items()}
"""The entry of `config.json` that makes transformers look into the files."""

ELSEWHERE = "relpos.train.elsewhere"
INSTEAD = {
    "jaxtyping": f"{ELSEWHERE}.jaxtyping",
    "relpos.model.kernels": f"{ELSEWHERE}.kernels",
    "relpos.train.standalone": f"{ELSEWHERE}.standalone",
    "relpos.trust": f"{ELSEWHERE}.trust",
}
"""Module of ours, or library → what the folder has in its place."""


def write(folder: Path, architecture: Architecture) -> dict[str, str]:
    """Writes the files for a network of this architecture into a folder; returns the entry of
    `config.json`."""
    for name, text in code(architecture.position, architecture.conv).items():
        write_text(folder / name, text)
    return AUTO_MAP


def code(position: Node, conv: Node) -> dict[str, str]:
    """Name of a file → its text.

    Args:
        position, conv: of the network: they name the classes that it needs.

    Raises:
        RelposError: there is no source of a class that they name, or it uses what cannot be taken
            along.
    """
    whole = {"position": position, "conv": conv}
    named = {name: find(name, kind, kind) for kind in whole for _, name in targets(whole[kind])}
    for target, what in named.items():
        if "<locals>" in what.__qualname__:
            raise RelposError(
                f"{target}: a class that a function makes cannot be carried along: "
                f"write it at the top of its module"
            )
    own = frozenset(what.__module__ for what in named.values())
    files: dict[str, str] = {}
    waiting = [SERVING, *sorted(own)]
    while waiting:
        module = waiting.pop()
        if _file(module) in files:
            continue
        text = _source(INSTEAD.get(module, module))
        if module == "relpos.trust":
            text += _table(named)
        files[_file(module)], needed = _relative(module, text, own)
        waiting += needed
    # In both files: transformers takes configurations for one class where folders of one name have
    # the same text for it.
    about = f"# Written by relpos {version('relpos')} from its own sources, MIT licence, for {', '.join(sorted(named))}\n"
    for name in FILES.values():
        files[f"{name}.py"] = about + files[f"{name}.py"]
    return dict(sorted(files.items()))


def _file(module: str) -> str:
    """The file that holds a module, all of them in one folder."""
    if module in FILES:
        return f"{FILES[module]}.py"
    name = INSTEAD.get(module, module)
    if not name.startswith("relpos."):
        name = f"own_{name}"  # the user's, which may be called like one of ours
    for package in (f"{ELSEWHERE}.", "relpos.model.", "relpos.train.", "relpos."):
        name = name.removeprefix(package)
    return f"{name.replace('.', '_')}.py"


def _table(named: Mapping[str, type]) -> str:
    """The end of `trust.py`: the classes that `config.json` names."""
    lines = [""]
    for number, (target, what) in enumerate(named.items()):
        # A class may stand in another one, which is what can be imported.
        outer, _, inner = what.__qualname__.partition(".")
        lines.append(f"from {what.__module__} import {outer} as C{number}")
        lines.append(f'NAMED["{target}"] = {".".join(filter(None, (f"C{number}", inner)))}')
    return "\n".join([*lines, ""])


def _relative(module: str, text: str, own: frozenset[str]) -> tuple[str, list[str]]:
    """The text with relative imports of the modules that the folder has, and these modules.

    Args:
        own: modules of the classes that the network names, which may be the user's.
    """
    lines, needed = text.splitlines(), list[str]()
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    # from the last one, so that those above keep their lines
    for node in sorted(imports, key=lambda node: -node.lineno):
        base = node.module or ""
        if node.level:
            raise RelposError(
                f"module {module}: {node.names[0].name} is imported from "
                f"{'.' * node.level}{base}: write the full name of that module"
            )
        if base not in INSTEAD and base not in own and base.partition(".")[0] != "relpos":
            continue
        statements = []
        for alias in node.names:
            home = _home(base, alias.name)
            called = alias.asname or alias.name
            needed.append(home)
            place, name = f".{_file(home).removesuffix('.py')}", alias.name
            if home == f"{base}.{alias.name}":  # a module
                place, name = ".", place[1:]
            statement = f"from {place} import {name}"
            if name != called:
                statement += f" as {called}"
            statements.append(" " * node.col_offset + statement)
        lines[node.lineno - 1 : node.end_lineno] = statements
    return "\n".join(lines) + "\n", needed


def _home(base: str, name: str) -> str:
    """The module that defines what `from base import name` gives, which may be that module
    itself."""
    if base in INSTEAD:
        return base
    spec = find_spec(base)
    if spec is None or spec.submodule_search_locations is None:
        return base
    if find_spec(f"{base}.{name}"):
        return f"{base}.{name}"
    for node in ast.parse(_source(base)).body:  # a package gives what it imports
        if isinstance(node, ast.ImportFrom) and name in (
            alias.asname or alias.name for alias in node.names
        ):
            return node.module or base
    files: dict[str, str] = getattr(import_module(base), "FILES", {})  # loaded when they are named
    return f"{base}.{files[name]}" if name in files else base


@cache
def _source(module: str) -> str:
    """The text of a module."""
    spec = find_spec(module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise RelposError(f"{module} has no source file, which the exported folder is to carry")
    return Path(spec.origin).read_text(encoding="utf-8")

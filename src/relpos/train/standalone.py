"""The code of one network as a single Python file, which opens it with torch and transformers alone.

The file consists of our own definitions, word for word: those that the network needs, directly or through others, in the order in
which Python would import them. Nothing is written a second time but `STAND_INS`. `SEAMS` are the few places where our code
chooses among attention kernels; the file has one, the definition in plain torch.

relpos writes such files and never runs them: it reads `config.json` and uses its own classes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from relpos.errors import RelposError
from relpos.files import write_text
from relpos.train.definitions import Library, Module, Symbol, packages, rows
from relpos.trust import find

MODULE = "modeling_relpos"
CLASSES = {
    "AutoConfig": "RelposConfig",
    "AutoModel": "RelposModel",
    "AutoModelForMaskedLM": "RelposForMaskedLM",
    "AutoModelForCausalLM": "RelposForCausalLM",
    "AutoModelForSequenceClassification": "RelposForSequenceClassification",
}
"""Class of transformers → class of the file that serves it."""
AUTO_MAP = {theirs: f"{MODULE}.{ours}" for theirs, ours in CLASSES.items()}
"""The entry of `config.json` that makes transformers look into the file."""

SERVING = "relpos.train.huggingface"
"""The module with these classes."""
LEFT_OUT = {"count", "example", "loss", "loss_sum", "save_pretrained"}
"""Methods of ours that only relpos calls."""

HEAD = '''"""The network of this folder, for transformers: `AutoModel….from_pretrained(folder, trust_remote_code=True)`.

Written by relpos {version} from its own sources, of which it contains what this network uses; MIT licence.
Needs {needs}. Attention is computed by its definition, in plain torch: relpos itself computes the same faster.
"""
'''

STAND_INS = {
    "jaxtyping": '''
class Float:
    """Float[Tensor, "batch n"] is a tensor; the words name its axes, for whoever reads."""

    def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
        return item[0]


class Int(Float):
    """A tensor of whole numbers."""


class Int16(Float):
    """A tensor of int16."""


class Int64(Float):
    """A tensor of int64."""


class Bool(Float):
    """A tensor of truth values."""


class Complex(Float):
    """A tensor of complex numbers."""


class Shaped(Float):
    """A tensor of any kind of numbers."""
''',
    "relpos.trust": '''
from functools import partial


def constructor(node: Mapping[str, Any], kind: str) -> Any:
    """The class that a node of the configuration names, with the node's other keys as arguments."""

    def argument(value: Any) -> Any:
        if isinstance(value, list):
            return [argument(item) for item in value]
        return constructor(value, kind) if isinstance(value, dict) and "_target_" in value else value

    return partial(NAMED[node["_target_"]], **{name: argument(value) for name, value in node.items() if name[0] != "_"})
''',
}
"""Modules that the file does without → what it has for them."""

SEAMS = {
    "relpos.model.encoder": [
        ("from relpos.model import kernels, residual\n", "from relpos.model.residual import add_norm\n"),
        ("        swept = sweeps.serve(self.attention.kernel, x, self.training) and self.block.sweepable\n", ""),
        ("        add_norm: Callable[..., Tensor] = sweeps.add_norm if swept else residual.add_norm\n", ""),
        (
            "        elif swept and self.block.plain_gelu:\n            y = sweeps.feed_forward(cut(y), self.widen, self.narrow)\n",
            "",
        ),
        ('kernel: kernels.Name = "auto"', 'kernel: str = "eager"'),
    ],
    "relpos.model.attention": [
        ("from relpos.model import kernels\n", "from relpos.model.kernels.eager import attention\n"),
        ("        kernel = kernels.select(self.kernel, terms, v, self.training, scale is not None)\n", ""),
        ("        self.ran = kernels.name_of(kernel)\n", ""),
        (" = kernel.attention(", " = attention("),
        ("        self.ran: str | None = None  # the attention kernel of the last forward pass\n", ""),
    ],
    "relpos.model.build": [('kernel: kernels.Name = "auto"', 'kernel: str = "eager"')],
    "relpos.model.conv.window": [('    if x.device.type == "cpu":\n        return list(_Depthwise.apply(x, *flat))\n', "")],
    "relpos.train.network": [('config.get("kernel", "auto")', 'config.get("kernel", "eager")')],
}
"""Module → texts of it, and what the file has in their place."""


def write(folder: Path, settings: Mapping[str, Any]) -> None:
    """Writes the file for the network that these settings describe into a folder."""
    write_text(folder / f"{MODULE}.py", code(settings))


def code(settings: Mapping[str, Any]) -> str:
    """The text of the file.

    Args:
        settings: of the network, as in a model folder: `position` and `conv` name the classes that it needs.

    Raises:
        RelposError: there is no source of a class that the settings name, or it uses what cannot be taken along.
    """
    named = {target: find(target, kind, kind) for kind in ("position", "conv") for target in _targets(settings[kind])}
    symbols = {target: Symbol(found.__module__, found.__qualname__) for target, found in named.items()}
    own = {symbol.module for symbol in symbols.values()}
    taken = own | STAND_INS.keys()
    library = Library(lambda module: _module(module) if module in taken or _is_ours(module) else None, added={"NAMED"})
    serving = [library.resolve(SERVING, name) for name in CLASSES.values()]
    imports, definitions, called = library.file([*filter(None, serving), *symbols.values()])
    table = "".join(f'    "{target}": {called[symbol]},\n' for target, symbol in symbols.items())
    needs = packages(imports)
    head = HEAD.format(version=version("relpos"), needs=f"{', '.join(needs[:-1])} and {needs[-1]}")
    about = '"""The classes that `config.json` names."""'
    parts = [
        head,
        "from __future__ import annotations\n",
        f"{imports}\n\n",
        f"{definitions}\n\n",
        f"NAMED = {{\n{table}}}\n{about}\n",
    ]
    return "\n".join(parts)


def _targets(node: Any) -> Iterator[str]:
    """Every `_target_` in a node of the configuration."""
    if isinstance(node, Mapping):
        if "_target_" in node:
            yield str(node["_target_"])
        node = list(node.values())
    if isinstance(node, list | tuple):
        for item in node:
            yield from _targets(item)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "relpos"


@cache
def _module(module: str) -> Module:
    return Module(module, _read(module))


def _read(module: str) -> str:
    """The text of a module, without what only relpos needs.

    Raises:
        RelposError: there is none, as for a class that was defined in a notebook.
    """
    if module in STAND_INS:
        return STAND_INS[module].strip()
    spec = find_spec(module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise RelposError(f"{module} has no source file, which the exported folder is to carry")
    text = Path(spec.origin).read_text(encoding="utf-8")
    for old, new in SEAMS.get(module, ()):
        assert text.count(old) == 1, f"{module} has no longer, or more than once, what standalone.py replaces: {old!r}"
        text = text.replace(old, new)
    return _without_examples(_cut(text) if _is_ours(module) else text)


def _cut(text: str) -> str:
    """A module's text without the methods that only relpos calls, and without the checks of arguments."""
    gone: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(decorator, ast.Name) and decorator.id == "checked":
                gone.add(decorator.lineno - 1)
        for method in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(method, ast.FunctionDef) and method.name in LEFT_OUT:
                first, last = rows([method])
                gone |= set(range(first - 1, last))  # with the empty line above
    return "\n".join(line for row, line in enumerate(text.splitlines()) if row not in gone)


def _without_examples(text: str) -> str:
    """Examples in docstrings import relpos."""
    text = re.sub(r'\n\n +Example:\n(?:(?! *""").*\n)*(?= *""")', "\n", text)
    return re.sub(r'"""(.+)\n +"""\n', r'"""\1"""\n', text)  # what has one line left stands in one line

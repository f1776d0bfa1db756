"""The documentation of a preset of `conf/position` or `conf/conv`, read from its YAML and from the
docstrings of its classes."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

from hydra.utils import get_class
from omegaconf import OmegaConf

import relpos
from relpos.config.conf import conf_dir
from relpos.model.build import count, without_memory

AUTHORS = r"[A-Z][\w-]+(?: et al\.| & [A-Z][\w-]+)? \d{4}"
BLOCK = r":\n\n((?: {4}.*\n)+)"  # formulas in an indented block of their own
SIZE = "base"  # the size for which parameters are counted


@dataclass(frozen=True, eq=False)
class Preset:
    """An option of a group; `node` is its YAML with the dials at their defaults."""

    group: str
    name: str
    node: dict[str, Any]

    @property
    def parts(self) -> list[Preset]:
        """The schemes in a merge or in a list by layers, also in those inside them; any other
        preset is its only part."""
        nodes = self.node.get("parts") or self.node.get("layers")
        return [part for node in nodes for part in self._inner(node).parts] if nodes else [self]

    def _inner(self, node: dict[str, Any]) -> Preset:
        return Preset(self.group, node["_target_"].rpartition(".")[2], node)

    @property
    def label(self) -> str:
        """The class with the values of its keys: `Rope(10000.0)`; of a merge, those of its
        parts."""
        if nodes := self.node.get("parts"):
            return " + ".join(self._inner(node).label for node in nodes)
        values = ", ".join(
            _word(value) for key, value in self.node.items() if not key.startswith("_")
        )
        return f"{self.name}({values})" if values else self.name

    @property
    def kind(self) -> type[Any]:
        return get_class(self.node["_target_"])

    @property
    def equations(self) -> list[str]:
        """The lines `# Formula: …` of the option, where its class has several; else the formulas in
        an indented block of the docstring; else the one that it begins with.

        Of a merge, its parts' names; of a list by layers, what each layer of a period has.
        """
        if own := re.findall(r"(?m)^# Formula: (.+)$", _yaml(self)):
            return own
        if nodes := self.node.get("layers"):
            return [
                f"T^({number}) = {self._inner(node).label}" for number, node in enumerate(nodes)
            ]
        if self.parts != [self] and not re.search(BLOCK, _own_doc(self.kind)):
            return [" + ".join(part.name for part in self.parts)]
        text = _documented(self.kind, BLOCK)
        if block := re.search(BLOCK, text):
            return [re.split(r"\s{2,}", line.strip())[0] for line in block[1].strip().split("\n")]
        return [
            _beginning(re.sub(rf" \({AUTHORS}.*?\)", "", " ".join(text.split("\n\n")[0].split())))
        ]

    @property
    def source(self) -> str:
        """Paper and equation: the first that the YAML file names, else the module, else the
        class."""
        head = re.sub(r"(?m)^# (Formula: .+)?", "", _yaml(self).split("\n_target_")[0])
        if self.parts != [self] and not re.search(AUTHORS, head):
            return "; ".join(dict.fromkeys(part.source for part in self.parts))
        texts = [
            head,
            sys.modules[self.kind.__module__].__doc__ or "",
            *(_own_doc(kind) for kind in _lineage(self.kind)),
        ]
        for text in texts:
            line = " ".join(text.split())
            if match := re.search(AUTHORS, line):
                return _closed(line[match.start() :])
        return "—"

    @property
    def formula(self) -> str:
        """The number of its parameters as a formula, from the line `Parameters: …` of the
        docstring."""
        if self.parts != [self]:
            return (
                " + ".join(formula for part in self.parts if (formula := part.formula) != "0")
                or "0"
            )
        return re.findall(r"(?m)^\s*Parameters: (.*)$", _documented(self.kind, r"Parameters: "))[0]

    @property
    def keys(self) -> dict[str, Any]:
        """The arguments of its constructor: those of its YAML, and the defaults of the others."""
        parameters = inspect.signature(self.kind).parameters.values()
        return {p.name: p.default for p in parameters if p.default is not p.empty} | self.node

    @property
    def options(self) -> list[str]:
        """The paragraphs of the docstring that begin with `key=true`, for the switches that this
        preset turns on."""
        paragraphs = (" ".join(text.split()) for text in _own_doc(self.kind).split("\n\n"))
        return [
            text
            for text in paragraphs
            if (key := re.match(r"`(\w+)=true`", text)) and self.node.get(key[1]) is True
        ]

    @property
    def differences(self) -> list[str]:
        """The paragraphs that begin with `Differs from`; those of a merge stand with its parts."""
        texts = [
            text
            for kind in _lineage(self.kind)
            for text in (sys.modules[kind.__module__].__doc__, _own_doc(kind))
        ]
        paragraphs = [
            " ".join(part.split()) for text in texts for part in re.split(r"\n\s*\n", text or "")
        ]
        return list(dict.fromkeys(text for text in paragraphs if text.startswith("Differs from")))

    @property
    def command(self) -> str:
        """`relpos pretrain` with the dials that it reads and its own keys."""
        text = _yaml(self)
        dials = [
            f"{key}={_word(_defaults()[key])}"
            for key in dict.fromkeys(re.findall(r"\$\{(\w+)\}", text))
        ]
        plain = {
            key: value
            for key, value in self.node.items()
            if not key.startswith("_") and f"{key}: ${{" not in text
        }
        own = [
            f"{self.group}.{key}={_word(value)}"
            for key, value in plain.items()
            if not isinstance(value, list)
        ]
        return " ".join(
            [
                "relpos pretrain",
                *(["position=none"] * (self.group == "conv")),
                f"{self.group}={self.name}",
                *dials,
                *own,
            ]
        )


def presets(group: str) -> list[Preset]:
    """All presets without a mandatory value, `none` first."""
    files = sorted(
        (conf_dir() / group).glob("*.yaml"), key=lambda file: (file.stem != "none", file.stem)
    )
    names = [file.stem for file in files if "???" not in file.read_text(encoding="utf-8")]
    return [Preset(group, name, _node(group, name)) for name in names]


def evaluate(formula: str, shape: Any, keys: dict[str, Any]) -> int:
    """The value of a formula of parameters; the letters are sizes of `shape`, the words are keys of
    the preset."""
    text = formula.replace("·", "*").replace("²", "**2").replace("−", "-").replace("/", "//")
    text = re.sub(r"(\d)(?=[A-Za-z(])", r"\1*", text)
    sizes = {"L": shape.layers, "H": shape.heads, "d_h": shape.head_dim, "d": shape.hidden}
    sizes |= {
        "E": shape.embedding,
        "n": shape.max_positions,
        "F": shape.ffn,
        "S": keys.get("kernels"),
    }
    return int(eval(text, {"__builtins__": {}}, sizes | keys))


@cache
def parameters(group: str, name: str, size: str = SIZE) -> int:
    """The parameters of a position scheme; of a convolution, how many more a model has than without
    it."""
    with without_memory():
        counts = count(model(group, name, f"size={size}"))
    return int(counts["position"] if group == "position" else counts["total"] - _without(size))


@cache
def _without(size: str) -> int:
    with without_memory():
        return int(count(model("conv", "none", f"size={size}"))["total"])


def model(group: str, name: str, *overrides: str) -> Any:
    """A new model with a preset; one with a convolution has no positions."""
    cfg = _composed(overrides).copy()  # composed once: composing takes longer than the rest
    cfg.position = OmegaConf.load(conf_dir() / "position" / "none.yaml")
    cfg[group] = OmegaConf.load(conf_dir() / group / f"{name}.yaml")
    return relpos.build(cfg)


@cache
def _composed(overrides: tuple[str, ...]) -> Any:
    return relpos.compose("params", overrides)


def _node(group: str, name: str) -> dict[str, Any]:
    cfg = _composed(()).copy()
    cfg[group] = OmegaConf.load(conf_dir() / group / f"{name}.yaml")
    content = OmegaConf.to_container(cfg[group], resolve=True)
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}


def _yaml(preset: Preset) -> str:
    path = conf_dir() / preset.group / f"{preset.name}.yaml"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _defaults() -> dict[str, Any]:
    return dict(OmegaConf.load(conf_dir() / "params.yaml"))  # type: ignore[arg-type]


def _word(value: Any) -> str:
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def _lineage(kind: type[Any]) -> list[type[Any]]:
    """The class and its base classes in the package, without the contract (`Scheme`, `Conv`)."""
    return [
        base
        for base in kind.__mro__
        if base.__module__.startswith("relpos.")
        and base.__mro__[1].__module__.startswith("relpos.")
    ]


def _own_doc(kind: type[Any]) -> str:
    return inspect.cleandoc(kind.__dict__.get("__doc__") or "")


def _documented(kind: type[Any], pattern: str) -> str:
    """The first docstring that the pattern matches, of the class or one of its bases; else the
    docstring of the class."""
    texts = [_own_doc(base) for base in _lineage(kind)]
    return next((text for text in texts if re.search(pattern, text)), texts[0])


def _beginning(text: str) -> str:
    """The text up to the first punctuation mark, outside of brackets, after which prose follows
    instead of formulas."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        ends = (
            character in ":;"
            or (character == "," and re.match(r", (?!with )(a |[a-z]{3,})", text[place:]))
            or text[place : place + 2] == ". "
        )
        if depth == 0 and (ends or place == len(text) - 1):
            return text[:place] if ends or character == "." else text
    return text


def _closed(text: str) -> str:
    """The text up to a colon, a full stop that ends a sentence, or a bracket that was opened before
    the text."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth < 0 or character == ":" or re.match(r"(?<!al)\.(\s+[A-Z]|$)", text[place:]):
            return text[:place]
    return text

"""All position schemes, found by looking: one that gets a file gets the tests."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import torch
from torch import Tensor

import relpos.model.position as package
from relpos.model.build import build
from relpos.model.heads import MaskedLM
from relpos.model.position import Scheme
from relpos.model.shape import Shape

SIZE: dict[str, Any] = {
    "layers": 2, "hidden": 8, "embedding": 6, "heads": 2, "ffn": 12, "max_positions": 16, "dropout": 0.1, "attention_dropout": 0.1,
    "activation": "gelu", "norm_eps": 1e-12, "token_types": 2, "share_layers": False,
}  # fmt: skip
SHAPE = Shape(heads=2, head_dim=4, hidden=8, embedding=6, layers=2, max_positions=16)
VOCABULARY = 23


def discover() -> list[type[Scheme]]:
    """Every subclass of Scheme that a module of the package defines, by name."""
    found = set()
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for _, part in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(part, Scheme) and part is not Scheme and part.__module__ == module.name:
                found.add(part)
    return sorted(found, key=lambda part: part.__name__)


SCHEMES = discover()


def accepts(scheme: type[Scheme], key: str) -> bool:
    return key in inspect.signature(scheme).parameters


def make(scheme: type[Scheme], **keys: Any) -> Any:
    """A callable of the shape, given those of `keys` that the scheme knows."""
    known = {key: value for key, value in keys.items() if accepts(scheme, key)}
    return lambda shape: scheme(shape, **known)


def model_of(scheme: type[Scheme], kernel: str = "auto", seed: int = 0, spread: float = 0.5, **keys: Any) -> MaskedLM:
    """A tiny float64 model whose position parameters and biases are all away from zero."""
    torch.manual_seed(seed)
    size = {**SIZE, **{key: keys.pop(key) for key in list(keys) if key in SIZE}}
    model = build(size, make(scheme, **{"k": 2, **keys}), VOCABULARY, kernel=kernel).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=torch.float64), alpha=spread)
    return model


def batch(rows: int = 2, n: int = 9, seed: int = 1) -> tuple[Tensor, Tensor]:
    """(ids, mask): random tokens; row 1 has three tokens of padding."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCABULARY, (rows, n), generator=generator)
    mask = torch.ones(rows, n, dtype=torch.int64)
    if rows > 1:
        mask[1, -3:], ids[1, -3:] = 0, 0
    return ids, mask

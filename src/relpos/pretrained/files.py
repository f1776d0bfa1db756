"""The files of a checkpoint → its configuration and its weights. Nothing that a file contains is ever executed."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from relpos.errors import RelposError

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Looked for in this order; each may be cut into shards with an index."""

TOKENIZER = ("tokenizer*", "special_tokens_map.json", "vocab.*", "merges.txt", "spiece.model", "sentencepiece*.model")
"""Patterns of the files of a tokenizer."""

OLD_NAMES = {"gamma": "weight", "beta": "bias"}
"""Last parts of names in checkpoints that were once converted from TensorFlow."""


def read_config(folder: Path) -> dict[str, Any]:
    """The content of `config.json`.

    Raises:
        RelposError: there is none, or it is damaged.
    """
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RelposError(f"no model in {folder}: {CONFIG} is missing") from None
    except (OSError, ValueError) as error:
        raise RelposError(f"{path}: damaged: {_line(error)}") from error
    if not isinstance(config, dict):
        raise RelposError(f"{path}: damaged: a mapping of keys is expected")
    return config


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights: one, or the shards of an index.

    Raises:
        RelposError: there are none, or a shard is missing.
    """
    for name in WEIGHTS:
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return [folder / name]
        if index.is_file():
            return [folder / shard for shard in sorted(set(_shards(index).values()))]
    raise RelposError(f"no weights in {folder}: {' or '.join(WEIGHTS)} is expected")


def checkpoint_files(folder: Path) -> list[Path]:
    """Every file that says what a checkpoint is: configuration, weights, tokenizer."""
    return [folder / CONFIG, *weight_files(folder), *tokenizer_files(folder)]


def tokenizer_files(folder: Path) -> list[Path]:
    """The files of a tokenizer, of a published one or of ours."""
    return sorted({path for pattern in TOKENIZER for path in folder.glob(pattern) if path.is_file()})


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Name → weight. The files are mapped into memory, so that what is not used is not read.

    Raises:
        RelposError: a file is missing, truncated, damaged or has code inside; or shards do not fit to their index.
    """
    files = weight_files(folder)
    tensors: dict[str, Tensor] = {}
    for file in files:
        part = _safetensors(file) if file.suffix == ".safetensors" else _pickled(file)
        if index := next((path for name in WEIGHTS if (path := folder / f"{name}.index.json").is_file()), None):
            expected = {name for name, shard in _shards(index).items() if shard == file.name}
            if len(files) > 1 and (wrong := sorted(expected ^ part.keys())):
                what = "lacks" if wrong[0] in expected else "has a foreign"
                raise RelposError(f"{file}: {what} weight {wrong[0]!r}; {index.name} says otherwise")
        tensors |= part
    return {_renamed(name): tensor for name, tensor in tensors.items()}


def _shards(index: Path) -> dict[str, str]:
    """Name of a weight → name of its file."""
    try:
        shards: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files = set(shards.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise RelposError(f"{index}: damaged: a weight_map from weights to files is expected") from None
    for file in files:
        if Path(file).name != file or not (index.parent / file).is_file():
            raise RelposError(f"{index}: shard {file} is missing")
    return shards


def _safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise RelposError(f"cannot read {path}: {_line(error)}") from error


def _pickled(path: Path) -> dict[str, Tensor]:
    try:
        try:
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError:  # files in torch's format before 1.6 cannot be mapped
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise RelposError(f"{path}: holds more than weights: refused, and nothing in it was executed") from None
    except (RuntimeError, OSError, EOFError, ValueError) as error:
        raise RelposError(f"cannot read {path}: {_line(error)}") from error
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise RelposError(f"{path}: a mapping from names to weights is expected")
    return {str(name): value for name, value in content.items()}


def _renamed(name: str) -> str:
    stem, _, last = name.rpartition(".")
    return f"{stem}.{OLD_NAMES[last]}" if last in OLD_NAMES else name


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

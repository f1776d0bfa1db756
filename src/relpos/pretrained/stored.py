"""The stored weights of a checkpoint, by name. Nothing that a file contains is ever executed."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Collection
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from relpos.errors import RelposError, from_library, one_line
from relpos.pretrained.files import names_by_file
from relpos.readers import check_recorded, check_regular

OLD_NAMES = {"gamma": "weight", "beta": "bias"}
"""Last parts of names in checkpoints converted from TensorFlow → ours."""
WRAPPERS = {
    "module.": "DistributedDataParallel",
    "_orig_mod.": "torch.compile",
    "model.": "a LightningModule",
}
"""Prefix of all names in a state that was saved with its wrapper → the wrapper."""


def renamed(name: str) -> str:
    """The name in newer checkpoints."""
    stem, _, last = name.rpartition(".")
    if last in OLD_NAMES:
        return f"{stem}.{OLD_NAMES[last]}"
    return name


def read_weights(folder: Path, names: Callable[[str], str] = renamed) -> dict[str, Tensor]:
    """Name → weight. The files are mapped into memory, so that weights that are not used are not
    read.

    Args:
        names: name in the file → name in the result.

    Raises:
        RelposError: a file is missing, truncated, damaged or has code inside; or shards do not
            match their index.
    """
    tensors: dict[str, Tensor] = {}
    for file, expected in names_by_file(folder).items():
        if file.suffix == ".safetensors":
            part = read_safetensors(file)
        else:
            part = _pickled(file)
        if expected and (wrong := expected ^ part.keys()):
            name, fault = min(wrong), "has a foreign"
            if name in expected:
                fault = "lacks"
            raise RelposError(f"{file}: {fault} weight {name!r}; its index says otherwise")
        tensors |= part
    return {names(name): tensor for name, tensor in tensors.items()}


def check_numbers(name: str, weight: Tensor) -> None:
    """Refuses a weight with which nothing sensible can be computed.

    Raises:
        RelposError: it is not of floating-point numbers, or one of them is not finite; names it.
    """
    if not weight.is_floating_point():
        raise RelposError(
            f"weight {name!r} is {str(weight.dtype).removeprefix('torch.')}: "
            f"quantised weights are not supported"
        )
    if weight.element_size() == 1:  # torch has no isfinite for these formats
        weight = weight.float()
    if not bool(torch.isfinite(weight).all()):
        raise RelposError(
            f"weight {name!r} has numbers that are not finite: the training that "
            f"wrote it has diverged"
        )


def wrapper(tensors: Collection[str], prefix: str = "") -> str:
    """The end of a message, which names the wrapper whose prefix all weights have; empty where
    there is none.

    Args:
        prefix: of the family, which is no wrapper's.
    """
    for before, library in WRAPPERS.items():
        if before != prefix and tensors and all(name.startswith(before) for name in tensors):
            return f"; all names begin with {before!r}, as {library} saves them: save the weights of the model inside"
    return ""


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Name → weight of one file, mapped into memory.

    Raises:
        RelposError: it cannot be read, or is not what the record of its run says.
    """
    check_recorded(path)
    with from_library(f"cannot read {path}"):
        return load_file(path)


def _pickled(path: Path) -> dict[str, Tensor]:
    check_regular(path)
    try:
        # torch wonders about the protocol of a pickle that another program wrote
        with warnings.catch_warnings(action="ignore"):
            try:
                content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError:  # files in torch's format before 1.6 cannot be mapped
                content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if "GLOBAL" in str(error):  # torch names the function or class that the file asks for
            raise RelposError(
                f"{path}: holds more than weights: refused, and nothing in it was executed"
            ) from None
        raise RelposError(
            f"cannot read {path}: not a file of weights (a Git LFS pointer?)"
        ) from None
    except (RuntimeError, OSError, EOFError, ValueError) as error:
        raise RelposError(f"cannot read {path}: {one_line(error)}") from error
    if not isinstance(content, dict) or not all(map(_is_plain, content.values())):
        raise RelposError(f"{path}: a mapping from names to weights is expected, all of them dense")
    return {str(name): value for name, value in content.items()}


def _is_plain(weight: object) -> bool:
    """Whether a weight is a tensor with all its numbers, as neither a sparse, a nested nor a
    `meta` one is."""
    return (
        isinstance(weight, Tensor)
        and weight.layout == torch.strided
        and not (weight.is_nested or weight.is_meta)
    )

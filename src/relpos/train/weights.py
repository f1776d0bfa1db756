"""A model folder: weights as safetensors, the configuration that builds the network, the tokenizer. Nothing is unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError
from relpos.files import read_yaml, replacing, write_text
from relpos.pretrained.checkpoint import Checkpoint
from relpos.pretrained.files import CONFIG, is_exported, is_published, read_config
from relpos.train.network import network
from relpos.trust import constructor

SETTINGS = ("size", "position", "conv", "vocabulary", "head", "outputs")
"""Keys of a model folder's configuration."""


def save_weights(model: nn.Module, path: Path) -> None:
    """Writes the parameters, each once (the tied word table under its first name)."""
    with replacing(path) as temporary:
        save_file({name: value.detach().cpu().contiguous() for name, value in model.named_parameters()}, temporary)


def load_weights(model: nn.Module, path: Path, strict: bool = True, assign: bool = False) -> None:
    """Fills the parameters from a file.

    Args:
        strict: refuse a file that lacks some parameter of `model` or has one more.
        assign: the parameters become those of the file, in its number format, rather than copies in that of the model.

    Raises:
        RelposError: names the file and the first parameter that is missing, unknown, or of another shape.
    """
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise RelposError(f"cannot read {path}: {str(error).splitlines()[0]}") from error
    parameters = dict(model.named_parameters())
    for name, _ in model.named_buffers():  # `save_pretrained` of transformers stores some; ours are computed
        stored.pop(name, None)
    for name in sorted(parameters.keys() ^ stored.keys()) if strict else ():
        raise RelposError(f"{path}: {'lacks' if name in parameters else 'has an unknown'} parameter {name!r}")
    for name in parameters.keys() & stored.keys():
        if parameters[name].shape != stored[name].shape:
            shapes = f"{tuple(stored[name].shape)}, the model needs {tuple(parameters[name].shape)}"
            raise RelposError(f"{path}: {name!r} has shape {shapes}")
    if assign:
        model.load_state_dict(stored, strict=False, assign=True)
        return
    with torch.no_grad():
        for name in parameters.keys() & stored.keys():
            parameters[name].copy_(stored[name])


def save_model(folder: Path, model: nn.Module, config: dict[str, Any], tokenizer: Tokenizer) -> None:
    """Writes a model folder; the weights come last, so that a folder with weights is complete."""
    write_text(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(config)))
    tokenizer.save(folder)
    save_weights(model, folder / "model.safetensors")


def read_model_config(folder: Path) -> dict[str, Any]:
    """The configuration of a model folder, whether one of ours or a published checkpoint.

    Raises:
        RelposError: there is no model in `folder`.
    """
    if is_published(folder):
        return Checkpoint(folder).settings
    if is_exported(folder):
        config = read_config(folder)
        return _known(folder / CONFIG, {name: config[name] for name in SETTINGS if config.get(name) is not None})
    path = folder / "config.yaml"
    if not path.is_file() or not (folder / "model.safetensors").is_file():
        raise RelposError(
            f"no model in {folder}: config.yaml and model.safetensors are expected, or the config.json of a published checkpoint"
        )
    return _known(path, read_yaml(path))


def _known(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a file that names only schemes and convolutions of relpos, or of modules that the user trusts.

    Raises:
        RelposError: begins with the file.
    """
    try:
        for kind in ("position", "conv"):
            constructor(settings[kind], kind)
    except RelposError as error:
        raise RelposError(f"{path}: {error}") from None
    return settings


def load_model(folder: Path, kernel: str = "auto") -> Any:
    """The network of a model folder, with its weights, in evaluation mode.

    A folder of ours gives a `MaskedLM`, or a `Classifier` where it was fine-tuned. A published checkpoint gives a network with the
    head whose weights it has, or an `Encoder` where it has none. Weights of a folder with `config.json` keep the number format in
    which they are stored.
    """
    if is_published(folder):
        checkpoint = Checkpoint(folder)
        model: nn.Module = network(checkpoint.settings | {"kernel": kernel}, filled=False)
        checkpoint.fill(model)
    elif is_exported(folder):
        model = network(read_model_config(folder) | {"kernel": kernel}, filled=False)
        load_weights(model, folder / "model.safetensors", assign=True)
    else:
        model = network(read_model_config(folder) | {"kernel": kernel})
        load_weights(model, folder / "model.safetensors")
    return model.eval()

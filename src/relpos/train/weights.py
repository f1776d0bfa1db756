"""A model folder: weights as safetensors, the configuration that builds the network, the tokenizer.
Nothing is unpickled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from safetensors.torch import save_file
from torch import Tensor, nn

from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError
from relpos.files import replacing, write_text
from relpos.model import kernels
from relpos.model.architecture import Architecture
from relpos.model.build import build, without_memory
from relpos.pretrained.files import CONFIG, form_of, read_config
from relpos.pretrained.stored import check_numbers, read_safetensors, read_weights, wrapper
from relpos.ranges import parsed, rules
from relpos.readers import read_yaml
from relpos.trust import constructor, refuse_mistakes

WEIGHTS = "model.safetensors"


def save_weights(model: nn.Module, path: Path) -> None:
    """Writes the parameters, each once (the tied word table under its first name)."""
    # safetensors refuses numbers that do not lie side by side.
    tensors = {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}
    save_tensors(tensors, path)


def save_tensors(
    tensors: dict[str, Tensor],
    path: Path,
    metadata: dict[str, str] | None = None,
) -> None:
    """Writes a file of safetensors, whole or not at all, with the permissions of other new
    files."""
    with replacing(path) as temporary:
        mode = temporary.stat().st_mode
        save_file(tensors, temporary, metadata)
        temporary.chmod(mode)  # safetensors makes it the owner's alone


def _stored(model: nn.Module, path: Path) -> dict[str, Tensor]:
    """The parameters in a file, or in the shards of a folder, once they are known to be those of
    `model`, which may have no memory."""
    stored = read_weights(path, str) if path.is_dir() else read_safetensors(path)
    parameters = dict(model.named_parameters())
    # `save_pretrained` of transformers stores some buffers; ours are computed
    for name, _ in model.named_buffers():
        stored.pop(name, None)
    for name in sorted(parameters.keys() ^ stored.keys()):
        raise RelposError(
            f"{path}: {'lacks' if name in parameters else 'has an unknown'} "
            f"parameter {name!r}{wrapper(stored)}"
        )
    for name, parameter in parameters.items():
        # Before anything is filled, so that a network is never half of one file.
        if parameter.shape != stored[name].shape:
            raise RelposError(
                f"{path}: {name!r} has shape {tuple(stored[name].shape)}, the model needs "
                f"{tuple(parameter.shape)}"
            )
        try:
            check_numbers(name, stored[name])
        except RelposError as error:
            raise RelposError(f"{path}: {error}") from None
    return stored


def save_model(folder: Path, model: Any, tokenizer: Tokenizer) -> None:
    """Writes a model folder; the weights come last, so that a folder with weights is complete."""
    write_text(folder / "config.yaml", OmegaConf.to_yaml(model.architecture.plain()))
    tokenizer.save(folder)
    save_weights(model, folder / WEIGHTS)


def model_folder(path: Path) -> Path:
    """The model folder itself; for a snapshot's file that of its run, which has the same
    configuration and tokenizer."""
    return path.parent.parent / "model" if path.suffix == ".safetensors" else path


def read_architecture(path: Path) -> Architecture:
    """The architecture of a model folder, ours or published, or of a snapshot's file.

    Raises:
        RelposError: there is no model in `path`, or its file describes no network; names file and
            key.
    """
    folder = model_folder(path)
    form = form_of(folder)
    file = folder / (CONFIG if form else "config.yaml")
    if not form and not (file.is_file() and (folder / WEIGHTS).is_file()):
        raise RelposError(
            f"no model in {folder}: config.yaml and {WEIGHTS} are expected, or the config.json of "
            f"a published checkpoint"
        )
    with _naming(file, folder / WEIGHTS):
        if form == "published":
            from relpos.pretrained.checkpoint import Checkpoint  # knows every family

            values: Any = Checkpoint(folder).settings
        else:
            values = _exported(read_config(folder)) if form == "exported" else read_yaml(file)
        if isinstance(values, dict):
            values = {key: value for key, value in values.items() if value is not None}
        refuse_mistakes(values, Architecture)
        architecture = parsed(Architecture, values)
        for key in ("position", "conv"):
            constructor(values[key], key)
        return architecture


def _exported(config: dict[str, Any]) -> dict[str, Any]:
    """Our keys in the `config.json` of an exported network, or of what transformers has made of it;
    the class tells the head."""
    values = {key: config[key] for key in rules(Architecture) if config.get(key) is not None}
    architecture = str((config.get("architectures") or [""])[0])
    if architecture == "RelposForSequenceClassification":
        # transformers does not write two, the usual number
        return values | {"outputs": len(config.get("id2label") or (0, 1))}
    values.pop("outputs", None)
    head = values.get("head") or {}
    return values | ({"head": head | {"kind": "none"}} if architecture == "RelposModel" else {})


@contextmanager
def _naming(path: Path, weights: Path) -> Iterator[None]:
    """Names the file in every error: it may be a stranger's, and its values reach constructors that
    expect sensible ones.

    Raises:
        RelposError: one line that begins with the file, or names another one of its folder, or
            `weights`.
    """
    try:
        yield
    except Exception as error:
        message = (str(error).splitlines() or [""])[0]
        if isinstance(error, RelposError):
            named = any(
                place in message for place in (f"{path.parent}:", f"{path.parent}/", str(weights))
            )
            raise RelposError(message if named else f"{path}: {message}") from error
        raise RelposError(
            f"{path}: no network can be made of it: {type(error).__name__} {message}"
        ) from error


def opened(path: Path, kernel: kernels.Name = "auto") -> Any:
    """The network of a model folder, or of a snapshot's file, with its weights, in evaluation mode.

    A folder of ours gives a `MaskedLM`, or a `Classifier` where it was fine-tuned. A published
    checkpoint gives a network with the head whose weights it has, or an `Encoder` where it has
    none. Weights of a folder with `config.json` keep the number format in which they are stored.

    Raises:
        RelposError: names the file, and the key or parameter that is wrong.
    """
    folder = model_folder(path)
    architecture = read_architecture(folder)
    weights = folder / WEIGHTS if path == folder else path
    form = form_of(folder)
    with _naming(folder / (CONFIG if form else "config.yaml"), weights):
        # A file of a few bytes may ask for more memory than there is: only what has weights is
        # filled.
        is_ours = not form
        with without_memory() if is_ours else nullcontext():
            model = build(architecture, kernel, filled=is_ours)
        if form == "published":
            from relpos.pretrained.checkpoint import Checkpoint  # knows every family

            Checkpoint(folder).fill(model)
        else:
            shards = not is_ours and path == folder and not weights.is_file()
            stored = _stored(model, folder if shards else weights)
            if is_ours:
                model = build(architecture, kernel)
            # Not strict: buffers are never read from a file, and `_stored` has compared the names
            # of the parameters.
            model.load_state_dict(stored, strict=False, assign=not is_ours)
    return model.eval()

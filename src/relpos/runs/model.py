"""The model that a run trains, with the weights and the positions that it starts from, and the description of it in the run's model
folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from omegaconf import DictConfig
from torch import Tensor

from relpos.config.compose import resolved
from relpos.data.tasks import Task
from relpos.errors import RelposError
from relpos.model.build import Network, count
from relpos.model.encoder import Encoder, encoder_of
from relpos.model.heads import Classifier, MaskedLM
from relpos.model.initial import redraw
from relpos.model.kernels import fused, name_of
from relpos.model.position import Tisa
from relpos.model.precision import autocast
from relpos.model.surgery import add_tisa, fold_positions, set_tisa, token_types
from relpos.runs.networks import described_by, description
from relpos.runs.run import Run
from relpos.train.network import MOST, class_of, classifier_on, masked_lm_on, network, without_memory
from relpos.train.optim import Recipe
from relpos.train.weights import opened
from relpos.trust import instantiate

Values = list[tuple[Any, Any, Any]]
"""Amplitudes, sharpnesses and centres of a layer, head by head."""
PACKAGE = "relpos.model.position"
ABSOLUTE = f"{PACKAGE}.Absolute"


def model_of(run: Run) -> MaskedLM | Classifier:
    """The network of a pre-training or a fine-tuning before its first step. Torch's random generator is left as it was.

    If the tokenizer is not trained yet, it is assumed to have as many pieces as the configuration asks for (a small text yields
    fewer). If the run that a fine-tuning starts from is not finished, the encoder has that run's initial weights.
    """
    with torch.random.fork_rng(devices=[]):
        return _begun(run)[0]


def _begun(run: Run) -> tuple[MaskedLM | Classifier, dict[str, Any]]:
    if run.stage == "finetune":
        return finetuning_model(run)
    tokenizer = run.inputs["tokenizer"]
    return pretraining_model(run, int(tokenizer.metrics.get("pieces", tokenizer.config["vocabulary"])))


def pretraining_model(run: Run, vocabulary: int) -> tuple[MaskedLM, dict[str, Any]]:
    """The masked language model of a pre-training, and the description of it: weights from `seed`, attention by `speed.kernel`.

    One that goes on with another network begins with that, in float32. A head that predicts words is trained further; where there
    is none, or a classifier's, which is dropped, the head is drawn from `seed`.
    """
    kernel, seed = run.config["speed"]["kernel"], run.config["seed"]
    if "start" not in run.inputs:
        settings = description(run.config, vocabulary)
        torch.manual_seed(seed)
        return network(settings | {"kernel": kernel}), settings
    before, settings = opened(run.inputs["start"].path, kernel)
    # The seed is set behind that line, because building a network to load weights into draws numbers, too.
    torch.manual_seed(seed)
    head = {key: value for key, value in settings.get("head", {}).items() if key in ("activation", "tied")}
    settings = {key: value for key, value in settings.items() if key not in ("head", "outputs")} | ({"head": head} if head else {})
    return masked_lm_on(before.float()).train(), settings


def finetuning_model(run: Run) -> tuple[Classifier, dict[str, Any]]:
    """A classifier on the encoder that the run starts from, and the description of it. Its output layer is drawn from `seed`, so
    is the pooler unless an intermediate task has trained one. With `change`, the encoder gets other positions first."""
    start, config, task = run.inputs["start"], run.config, instantiate(run.config["task"], "task")
    assert isinstance(task, Task)
    kind, change = config.get("head", "plain"), config.get("change")
    before: Any
    before, settings = opened(start.network, config["speed"]["kernel"]) if start.state == "finished" else _begun(start)
    head = {} if kind == "plain" else {"head": {"classifier": kind}}
    settings = {key: value for key, value in settings.items() if key != "head"} | {"outputs": task.outputs} | head
    settings["position"] = changed_position(settings["position"], change)
    before = before.float()  # a published checkpoint may hold half precision, in which small updates would be lost
    if change:
        change_positions(encoder_of(before), change, config["length"], config["seed"])
    # Here and not before: loading the network and changing its positions draw numbers, too.
    torch.manual_seed(config["seed"])
    return classifier_on(before, task.outputs, encoder_of(before).embedding.dropout.p, kind).train(), settings


def refuse_impossible(run: Run, is_here: bool = True) -> None:
    """Refuses a network that cannot be built, before any work on the run or its inputs. The check allocates no memory for weights.

    Args:
        is_here: whether this machine, and no other, is to execute the run.

    Raises:
        RelposError: size, position, convolution, length and `recipe.position_lr` do not go together, or `change` does not suit the
            positions; `speed.kernel` does not serve them; or there is no GPU here, and `speed` asks for one.
    """
    # Inputs first: of a fine-tuning that cannot start, the pre-training is what is to be mended.
    for needed in run.inputs.values():
        refuse_impossible(needed, is_here)
    if run.stage in ("pretrain", "finetune") and run.state != "finished":
        asking = {"accelerator": "gpu", "kernel": "triton"}.items() & run.config["speed"].items()
        if is_here and asking and not (torch.cuda.is_available() or torch.backends.mps.is_available()):
            raise RelposError(f"speed.{'='.join(min(asking))}: torch finds no GPU on this machine; auto takes what there is")
        with torch.random.fork_rng(devices=[]), without_memory():
            model = network(described_by(run) | {"kernel": run.config["speed"]["kernel"]})
        counted(model)
        Recipe.of(run.config["recipe"]).multipliers(model)
        if change := run.config.get("change"):
            check_change(model.encoder, change, run.config["length"])
        # The meaning has the first phase where there is one.
        first = run.meaning.get("first", run.config)["length"]
        model.encoder.position.check_length(max(first, run.config["length"]))
        if run.config["speed"]["kernel"] == name_of(fused):
            _refuse_fused(run)


def _refuse_fused(run: Run) -> None:
    """Raises RelposError where the terms of a scheme have what `speed.kernel=fused` does not compute: the scheme says so alone in a
    forward pass, which a narrow network of its layers and heads makes here."""
    settings = described_by(run)
    width = 8 * settings["size"]["heads"]
    narrow = settings["size"] | {"hidden": width, "embedding": width, "ffn": width}
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), autocast(run.config["precision"], "cpu"):
            network(settings | {"size": narrow, "kernel": name_of(fused)}).encoder(torch.zeros(1, 8, dtype=torch.long))
    except RelposError as error:
        if str(error).startswith("attention kernel"):  # what else does not suit so narrow a network may suit this one
            raise RelposError("speed.kernel=fused does not serve this position scheme; auto takes one that serves") from error


def counted(model: Network) -> dict[str, Any]:
    """`relpos.model.build.count`; refuses a network of more than `MOST` parameters.

    Raises:
        RelposError: says how many there are.
    """
    numbers = count(model)
    if numbers["total"] > MOST:
        raise RelposError(f"{numbers['total']:.2e} parameters: more than {MOST:.0e} are too many")
    return numbers


def counted_without_memory(cfg: DictConfig | Mapping[str, Any]) -> dict[str, Any]:
    """The counts of a network whose tensors have shapes but no values.

    Raises:
        RelposError: there are more than 10¹³ parameters.
    """
    with without_memory():
        return counted(network(resolved(cfg)))


def change_positions(encoder: Encoder, change: dict[str, Any], length: int, seed: int) -> None:
    """Gives a network, in place, other positions, as Wennberg & Henter (2021, Section 5) gave ALBERT. TISA is fitted to F̂_P of the
    network as it was before position embeddings are removed.

    The paper does not say to how many positions TISA is fitted, nor whether it is fitted where the position embeddings stay. Here
    the fit is to the `length` of the fine-tuning, and `change.start` says whether there is one.

    Args:
        change: `positions`, `tisa`, `start`, `reused` as in conf/finetune.yaml; what is left out is not changed.
        length: of the profiles F̂_P to which TISA is fitted.
        seed: of the random start.

    Raises:
        RelposError: the network has no table of position embeddings where one is removed or fitted to.
    """
    functions, reused = change.get("tisa", 0), change.get("reused", False)
    values = fitted_values(encoder, functions, reused, length) if functions and change["start"] == "regression" else None
    if change["positions"] == "remove":
        fold_positions(encoder)
    if functions:
        # The modules draw their initial values when they are made; these are drawn again, from the run's seed.
        with torch.random.fork_rng(devices=[]):
            tisa = add_tisa(encoder, functions, reused)
        redraw(tisa.named_parameters(), seed)
        if values is not None:
            set_tisa(tisa, values)


def check_change(encoder: Encoder, change: dict[str, Any], length: int) -> None:
    """Raises RelposError where `change_positions` would for another reason than the positions, which `changed_position` checks."""
    from relpos.analysis.profiles import check_maps

    if change["positions"] == "remove":
        token_types(encoder)
    if change.get("tisa") and change["start"] == "regression":
        check_maps(encoder, length, change["tisa"])


def fitted_values(encoder: Encoder, functions: int, reused: bool, length: int) -> list[Values]:
    """For each module of TISA and each head: amplitudes, sharpnesses and centres by least squares to F̂_P of the module's layer.

    One module for all layers is fitted to the mean of their F̂_P. Layers that share their weights share the fit.
    """
    from relpos.analysis.profiles import profiles

    passes, layers = encoder.shape.layers, len(encoder.layers)
    matrices = [profiles(encoder, layer, length) for layer in range(layers)]
    # One module serves all layers, and least squares to their mean is least squares to all of them.
    if reused:
        matrices = [torch.stack(matrices).mean(0)]
    values = [_fitted(heads, functions) for heads in matrices]
    return values if reused else [values[number % layers] for number in range(passes)]


_FITS: dict[tuple[str, int], Values] = {}
"""Fits made in this process: the runs of a table start from one network, and a fit takes seconds."""


def _fitted(heads: Tensor, functions: int) -> Values:
    """Amplitudes, sharpnesses and centres for each head of a layer; `heads` is its F̂_P (heads, n, n)."""
    from relpos.analysis.profiles import fit_profiles

    key = hashlib.sha256(heads.numpy().tobytes()).hexdigest(), functions
    if key not in _FITS:
        _FITS[key] = [(fit.amplitude, fit.sharpness, fit.centre) for fit in fit_profiles(heads, functions)]
    return _FITS[key]


def changed_position(position: dict[str, Any], change: dict[str, Any] | None) -> dict[str, Any]:
    """The node `position` of a network after `change_positions`.

    Raises:
        RelposError: position embeddings are to be removed, and the network has others or more than those.

    >>> changed_position({"_target_": "relpos.model.position.Absolute"}, {"positions": "remove"})["_target_"]
    'relpos.model.position.NoPosition'
    """
    if not change:
        return position
    is_bare = position["_target_"].endswith(".NoPosition")
    if change["positions"] == "remove":
        if not is_table(position):
            raise RelposError(f"change.positions=remove: {class_of(position)} is no table of position embeddings alone")
        position, is_bare = {"_target_": f"{PACKAGE}.NoPosition", "_partial_": True}, True
    if not change.get("tisa"):
        return position
    if change["start"] == "regression" and not has_table(position) and change["positions"] == "keep":
        raise RelposError(f"change.start=regression: {class_of(position)} has no position embeddings to fit TISA to; start=random")
    tisa = {"_target_": f"{PACKAGE}.{Tisa.__name__}", "_partial_": True, "kernels": change["tisa"], "reused": change["reused"]}
    if is_bare:
        return tisa
    return {"_target_": f"{PACKAGE}.Merge", "_partial_": True, "parts": [position, tisa]}


def has_table(position: dict[str, Any]) -> bool:
    """Whether a node `position` has a table of position embeddings, itself or in a part."""
    return is_table(position) or any(has_table(part) for key in ("parts", "layers") for part in position.get(key) or ())


def is_table(position: dict[str, Any]) -> bool:
    """Whether a node `position` is a table of position embeddings and nothing else."""
    return bool(position["_target_"] == ABSOLUTE)

"""The model that a run trains, with the weights that it starts from, and the description of it in the run's model folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from relpos.data.tasks import Task
from relpos.errors import RelposError
from relpos.model.build import Network, count
from relpos.model.encoder import encoder_of
from relpos.model.heads import Classifier, MaskedLM
from relpos.runs.changed import change_positions, changed_position
from relpos.runs.networks import described_by, description
from relpos.runs.run import Run
from relpos.train.described import network
from relpos.train.network import MOST, build_model, classifier_on, masked_lm_on, without_memory
from relpos.train.optim import Recipe
from relpos.train.weights import load_model, read_model_config
from relpos.trust import instantiate


def model_of(run: Run, vocabulary: int | None = None) -> MaskedLM | Classifier:
    """The network of a pre-training or a fine-tuning before its first step. Torch's random generator is left as it was.

    If the tokenizer is not trained yet, it is assumed to have `vocabulary` pieces, or with None the number that the configuration
    asks for (a small text yields fewer). If the run that a fine-tuning starts from is not finished, the encoder has that run's
    initial weights.
    """
    with torch.random.fork_rng(devices=[]):
        if run.stage == "finetune":
            return finetuning_model(run, vocabulary)
        tokenizer = run.inputs["tokenizer"]
        start = run.inputs["start"].path if "start" in run.inputs else None
        return pretraining_model(
            run.config, int(tokenizer.metrics.get("pieces", vocabulary or tokenizer.config["vocabulary"])), start
        )


def pretraining_model(config: dict[str, Any], vocabulary: int, start: Path | None = None) -> MaskedLM:
    """The masked language model of a pre-training's configuration: weights from `seed`, attention by `speed.kernel`.

    With `start` it is the network in that folder, in float32; if that has no head, the head is drawn from `seed`.
    """
    if start:
        # The seed is set behind this line, because building a network to load weights into draws numbers, too.
        before = load_model(start, config["speed"]["kernel"]).float()
        torch.manual_seed(config["seed"])
        return masked_lm_on(before).train()
    torch.manual_seed(config["seed"])
    return network(description(config, vocabulary) | {"kernel": config["speed"]["kernel"]})


def pretrained_settings(config: dict[str, Any], vocabulary: int, start: Path | None = None) -> dict[str, Any]:
    """The description of that network. A head that predicts words is trained further; a classifier's is dropped."""
    if start is None:
        return description(config, vocabulary)
    settings = read_model_config(start)
    head = {key: value for key, value in settings.get("head", {}).items() if key in ("activation", "tied")}
    return {key: value for key, value in settings.items() if key not in ("head", "outputs")} | ({"head": head} if head else {})


def finetuning_model(run: Run, vocabulary: int | None = None) -> Classifier:
    """A classifier on the encoder that the run starts from; its output layer is drawn from `seed`, and so is the pooler unless an
    intermediate task has trained one. With `change`, the encoder gets other positions first."""
    start, task = run.inputs["start"], instantiate(run.config["task"], "task")
    assert isinstance(task, Task)
    if start.state == "finished":
        before: Any = load_model(start.network, run.config["speed"]["kernel"])
    else:
        before = model_of(start, vocabulary)
    before = before.float()  # a published checkpoint may hold half precision, in which small updates would be lost
    if change := run.config.get("change"):
        change_positions(encoder_of(before), change, run.config["length"], run.config["seed"])
    # Here and not before: loading the network and changing its positions draw numbers, too.
    torch.manual_seed(run.config["seed"])
    return classifier_on(before, task.outputs, encoder_of(before).embedding.dropout.p, run.config.get("head", "plain")).train()


def finetuned_settings(run: Run, outputs: int) -> dict[str, Any]:
    """The description of the network of a fine-tuning; head and positions may differ from those that it started with."""
    settings, kind = read_model_config(run.inputs["start"].network), run.config.get("head", "plain")
    position = changed_position(settings["position"], run.config.get("change"))
    head = {} if kind == "plain" else {"head": {"classifier": kind}}
    return {key: value for key, value in settings.items() if key != "head"} | {"position": position, "outputs": outputs} | head


def refuse_impossible(run: Run) -> None:
    """Refuses a network that cannot be built, before any work on the run or its inputs. The check allocates no memory for weights.

    Raises:
        RelposError: size, position, convolution, length and `recipe.position_lr` do not go together, or `change` does not suit the
            positions.
    """
    # Inputs first: of a fine-tuning that cannot start, the pre-training is what is to be mended.
    for needed in run.inputs.values():
        refuse_impossible(needed)
    if run.stage in ("pretrain", "finetune") and run.state != "finished":
        with torch.random.fork_rng(devices=[]), without_memory():
            model = network(described_by(run) | {"kernel": run.config["speed"]["kernel"]})
        counted(model)
        Recipe.of(run.config["recipe"]).multipliers(model)
        model.encoder.position.check_length(run.config["length"])


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
        return counted(build_model(cfg))

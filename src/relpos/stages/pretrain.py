"""Masked language modelling → `model/`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import exp
from typing import TYPE_CHECKING

import torch

from relpos.analysis.kernels import draw_kernels
from relpos.config.compose import resolved
from relpos.config.schema import First, Packing, Phase, TrainingConfig
from relpos.data.objective import Objective, trained_for
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.store import Store
from relpos.errors import RelposError
from relpos.model.architecture import Architecture, Size, scheme_name
from relpos.model.build import build, count, masked_lm_on
from relpos.model.heads import MaskedLM
from relpos.ranges import Natural, Node, parsed
from relpos.readers import Plain
from relpos.runs.cost import costs
from relpos.runs.run import Run
from relpos.stages.change import changed_position
from relpos.stages.identity import (
    DIALS,
    architecture_part,
    lightning_part,
    machine_part,
    recipe_part,
)
from relpos.stages.stage import TrainingStage
from relpos.stages.store import StoreStage, text_name
from relpos.train.group import present

if TYPE_CHECKING:
    from pytorch_lightning import Trainer

    from relpos.data.tokenizer import Tokenizer
    from relpos.train.pretrain import Pretraining, PretrainingData


@dataclass(frozen=True, kw_only=True)
class PretrainPhase(Phase):
    """The keys `pretrain.…` of a fine-tuning; they are also keys of a pre-training."""

    steps: Natural
    packing: Packing
    objective: Node | None = None
    first: First = field(default_factory=First)


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(TrainingConfig, PretrainPhase):
    """What a pre-training is called with."""

    steps: Natural
    size: Size
    position: Node
    conv: Node
    pairs: int | None = None

    @cached_property
    def trained_for(self) -> Objective:
        """What is predicted."""
        return trained_for(self.size.causal, self.recipe.masking, self.steps, self.objective)


class PretrainStage(TrainingStage):
    config: PretrainConfig
    stage, version = "pretrain", 3
    shared = True

    @classmethod
    def plan(cls, content: Plain) -> Run:
        """Store → pre-training of a new network, or of that which `network` names."""
        config = resolved(content)
        start = None
        if config.get("network"):
            from relpos.stages.given import given_run, tokenizer_of  # knows every kind of network

            start = given_run(str(config["network"]))
            # After the composed values: the network on disk says what it is, and overrides of its
            # shape were refused.
            config |= start.architecture().plain()
            config["scheme"] = start.config.scheme
        keys = parsed(PretrainConfig, config)
        if keys.change.meaning:
            if not start:
                raise RelposError("change: which network? network=FOLDER must be given")
            position = changed_position(config["position"], keys.change)
            config |= {"position": position, "scheme": None}
        tokenizer = tokenizer_of(start, config["vocabulary"]) if start else None
        store = StoreStage.plan(config, tokenizer)
        meaning = {key: config[key] for key in (*DIALS, "packing")} | architecture_part(config)
        # The objective is part of the recipe, under `masking`.
        meaning["recipe"] = recipe_part(config["recipe"] | {"masking": keys.trained_for.masking})
        meaning |= lightning_part(config)
        meaning["pairs"] = config["data"].get("pairs")
        if shuffle := config["data"].get("shuffle"):  # the store has it, too
            meaning["shuffle"] = shuffle  # here claims and labels find it
        if keys.first.share:  # left out of runs of one phase
            first = meaning["first"] = dict(config["first"])
            if first["packing"] == config["packing"]:
                del first["packing"]
        if change := keys.change.meaning:
            meaning["change"] = change
        inputs = {"store": store, "tokenizer": store.inputs["tokenizer"]}
        if start:
            inputs["start"], begins = start, start.name + keys.change.name
        else:
            shape = f"{keys.size.layers}x{keys.size.hidden}{'-causal' * keys.size.causal}"
            begins = f"{scheme_name(keys.position, keys.conv)}-{shape}"
        name = f"{begins}-{text_name(store)}-seed{keys.seed}"
        return cls.of(name, meaning, meaning | machine_part(config), inputs)

    def parts(self) -> tuple[Pretraining, PretrainingData, Tokenizer]:
        from relpos.runs.training import microbatch_of, recorder_of  # which loads Lightning
        from relpos.train.pretrain import Pretraining, PretrainingData

        config, group = self.config, present()
        store = Store(self.inputs["store"].path)
        # Read before the training: hours later the network that it goes on with may be gone.
        tokenizer = load_tokenizer(self.inputs["tokenizer"].path)
        model = self.model(store.vocabulary)
        recorder = recorder_of(self, model.encoder, group)
        module = Pretraining(
            model,
            config.recipe,
            steps=config.steps,
            seed=config.seed,
            precision=config.precision,
            log_every=config.log_every,
            group=group,
            recorder=recorder,
            operations=costs(self)["flops_per_token"],
        )
        data = PretrainingData(
            store,
            seed=config.seed,
            steps=config.steps,
            batch=config.batch,
            length=config.length,
            packing=config.packing,
            pairs=config.pairs,
            microbatch=microbatch_of(self, model.encoder, group),
            first=asdict(config.first) if config.first.share else None,
            group=group,
            few_shapes=recorder is not None,
            padding=not model.encoder.by_token,
            objective=config.trained_for,
        )
        return module, data, tokenizer

    def results(self, module: Pretraining, data: PretrainingData, trainer: Trainer) -> Plain:
        """Draws the figure of the kernels besides."""
        from relpos.train.loggers import log_figure

        parameters = count(module.model)
        figure = self.path / "figures" / "kernels.png"
        if draw_kernels(module.model, figure):
            log_figure(trainer.loggers, "kernels", figure)
        return module.result | {
            "perplexity": module.result["heldout_perplexity"],
            "unigram_perplexity": exp(data.unigram_loss()),
            "parameters": parameters["total"],
            "position_parameters": parameters["position"],
            "steps": trainer.global_step,
        }

    def figures(self) -> tuple[str, ...]:
        return (
            "heldout_loss",
            "heldout_accuracy",
            "heldout_perplexity",
            "perplexity",
            "unigram_perplexity",
            "parameters",
            "position_parameters",
            "steps",
        )

    def architecture(self) -> Architecture:
        # The pieces that are asked for; a small text yields fewer.
        pieces = self.inputs["tokenizer"].config.vocabulary or 0
        return parsed(Architecture, vars(self.config) | {"vocabulary": pieces})

    def model(self, vocabulary: int | None = None) -> MaskedLM:
        """The masked language model before its first step: weights from `seed`, attention by
        `speed.kernel`.

        A training that goes on with another network begins with that. A head that predicts words
        is trained further; where there is none, or a classifier's, which is dropped, the head is
        drawn from `seed`.

        Args:
            vocabulary: of the store; None: that of the tokenizer, or what is asked for while that
                is not trained.
        """
        if "start" in self.inputs:
            return masked_lm_on(self.changed_start()).train()
        architecture = self.architecture()
        if vocabulary is None:
            metrics = self.inputs["tokenizer"].metrics
            vocabulary = int(metrics.get("pieces", architecture.vocabulary))
        torch.manual_seed(self.config.seed)
        architecture = replace(architecture, vocabulary=vocabulary)
        model: MaskedLM = build(architecture, self.config.speed.kernel)
        return model

    def expected(self) -> tuple[int, float]:
        return self.architecture().vocabulary, self.config.trained_for.expected

    def last_constant_step(self) -> int | None:
        # A warm-up that is a share of the steps is another one in a longer run, and so are a first
        # phase and annealed masks.
        config, recipe = self.config, self.config.recipe
        if recipe.schedule == "linear" or 0 < recipe.warmup < 1:
            return None
        if config.first.share or "start" in self.inputs or config.trained_for.changes:
            return None  # the record does not say what a run's start was
        return recipe.decay_start(config.steps)

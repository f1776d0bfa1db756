"""What the stages have in common that read a text or train a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from relpos.config.schema import Kernel
from relpos.errors import RelposError
from relpos.model.architecture import Architecture
from relpos.model.build import build, count, without_memory
from relpos.model.encoder import encoder_of
from relpos.model.heads import Classifier, MaskedLM
from relpos.model.position.merge import Merge
from relpos.model.precision import autocast
from relpos.readers import Plain, digest
from relpos.runs.cost import forward
from relpos.runs.run import Record, Run, TrainingRun, closure
from relpos.stages.change import change_positions, changed_position, check_change
from relpos.train.logger_settings import refuse_logger
from relpos.train.weights import opened, save_model
from relpos.trust import instantiate

if TYPE_CHECKING:
    from pytorch_lightning import Trainer

    from relpos.data.tokenizer import Tokenizer
    from relpos.train.module import Training
    from relpos.train.prefetch import StepsData


class Stage(Run):
    """A run that reads a text, or trains a network on one."""

    def source(self) -> Any:
        """The source that the run's `data` describes; for the toy language, the files that its run
        has written."""
        source = instantiate(self.config.data or {}, "data")
        return source.at(self.inputs["toy"].path) if "toy" in self.inputs else source

    def hashed(self) -> dict[str, Callable[[], Any]]:
        """Key of the meaning that has hashes of files → what they are now."""
        return {"corpus": lambda: self.source().identity()}

    def refuse_changed(self) -> None:
        """Called when a run has read its text or its task: hours may lie between its plan and its
        turn in a table.

        Raises:
            RelposError: the files are no longer those of which the run's identity has the hashes.
        """
        for key, now in self.hashed().items():
            if key in self.meaning and digest(now()) != digest(self.meaning[key]):
                changed = f"the files of its {key} have changed since it was planned"
                raise RelposError(f"{self.name}: {changed}: give the command again")

    def refuse_absent(self) -> None:
        if self.meaning.get("corpus", self) is None:
            self.source().characters()

    def architecture(self) -> Architecture:
        """The architecture of the network, trained or named by the user, without its head."""
        raise NotImplementedError

    def model(self) -> MaskedLM | Classifier:
        """The network before its first step."""
        raise NotImplementedError


class TrainingStage(TrainingRun, Stage):
    """A stage that trains a network."""

    @property
    def start(self) -> Stage:
        """The run that the training starts from."""
        start = self.inputs["start"]
        assert isinstance(start, Stage)
        return start

    def changed_start(self) -> Any:
        """The network that the run starts from, in float32, and with other positions where `change`
        has them; torch's seed is that of the run."""
        config, start = self.config, self.start
        network: Any
        if start.state == "finished":
            network = opened(start.network, config.speed.kernel)
        else:
            network = start.model()
        # a published checkpoint may hold half precision, in which small updates would be lost
        network, architecture = network.float(), network.architecture
        position = changed_position(architecture.position, config.change)
        network.architecture = replace(architecture, position=position)
        change_positions(encoder_of(network), config.change, config.length, config.seed)
        # Here and not before: loading the network and changing its positions draw numbers, too.
        torch.manual_seed(config.seed)
        return network

    def parts(self) -> tuple[Training, StepsData, Tokenizer]:
        """Network with update, data and tokenizer of a training whose inputs are finished."""
        raise NotImplementedError

    def work(self) -> Plain:
        """Trains, alone or as one of several processes; the first writes `model/` and what else the
        stage leaves behind."""
        # These modules load Lightning, which takes seconds; a plan does without.
        from relpos.runs.training import fit
        from relpos.train.loggers import conclude

        module, data, tokenizer = self.parts()
        trainer = fit(self, module, data)
        # From here on the first process alone: several would write the same files.
        if not module.group.first:
            return {}
        metrics = self.results(module, data, trainer)
        save_model(self.path / "model", module.model, tokenizer)
        conclude(trainer.loggers, Record(metrics=metrics).figures)
        return metrics

    def results(self, module: Any, data: Any, trainer: Trainer) -> Plain:
        """The final metrics of a training that is done, and files beside `model/`."""
        raise NotImplementedError

    def steps(self) -> float:
        """The steps; where they are counted in epochs, those of the official rows."""
        return float(self.config.steps or 0)

    def expected(self) -> tuple[int, float]:
        """The vocabulary that the head predicts, 0 for none, and the share of the tokens at which
        it does so."""
        return 0, 0.0

    def phases(self) -> list[tuple[float, float]]:
        size, steps, head = self.architecture().size, self.steps(), self.expected()
        return [
            # Three: the backward pass has two matrix products for each one of the forward pass.
            (share * steps * batch * length, 3.0 * forward(size, length, *head))
            for share, batch, length in self.config.shapes
        ]

    def refuse_absent(self) -> None:
        if self.config.logger and self.state != "finished":
            refuse_logger(self.config.logger)
        super().refuse_absent()

    def refuse_impossible(self, is_here: bool) -> None:
        if self.state == "finished":
            return
        config, speed = self.config, self.config.speed
        asking = {"accelerator": "gpu", "kernel": "triton"}.items() & vars(speed).items()
        if (
            is_here
            and asking
            and not (torch.cuda.is_available() or torch.backends.mps.is_available())
        ):
            raise RelposError(
                f"speed.{'='.join(min(asking))}: torch finds no GPU on this machine; "
                f"auto takes what there is"
            )
        with torch.random.fork_rng(devices=[]), without_memory():
            model = build(self.architecture(), speed.kernel)
        count(model)
        config.recipe.multipliers(model)
        check_change(model.encoder, config.change, config.length)
        model.encoder.position.check_length(max(length for _, _, length in config.shapes))
        if speed.kernel == "fused":
            self._refuse_terms("fused")
        elif isinstance(model.encoder.position, Merge):
            self._refuse_terms("eager")

    def _refuse_terms(self, kernel: Kernel) -> None:
        """Raises RelposError where the terms of a scheme have what `speed.kernel=fused` does not
        compute, or those of its parts have no sum: the scheme says so alone in a forward pass,
        which a narrow network of its layers and heads makes here."""
        architecture = self.architecture()
        width = 8 * architecture.size.heads
        narrow = replace(architecture.size, hidden=width, embedding=width, ffn=width)
        try:
            with (
                torch.random.fork_rng(devices=[]),
                torch.no_grad(),
                autocast(self.config.precision, "cpu"),
            ):
                model = build(replace(architecture, size=narrow), kernel)
                model.encoder(torch.zeros(1, 8, dtype=torch.long))
        except RelposError as error:
            # what else does not suit so narrow a network may suit this one
            if str(error).startswith("attention kernel"):
                served = "does not serve this position scheme; auto takes one that serves"
                raise RelposError(f"speed.kernel=fused {served}") from error
            if str(error).startswith("tables of values"):
                raise


def refuse(run: Run) -> None:
    """Refuses a run that cannot be made on this machine, before its folder is made and before its
    inputs are executed, which can take days.

    Raises:
        RelposError: see `Run.refuse_absent` and `Run.refuse_impossible`, also of its inputs.
    """
    needed = closure([run])
    for planned in reversed(needed):
        planned.refuse_absent()
    # Inputs first: of a fine-tuning that cannot start, the pre-training is what is to be mended.
    for planned in needed:
        planned.refuse_impossible(is_here=True)

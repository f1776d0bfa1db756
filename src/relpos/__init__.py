"""relpos: how should a Transformer encoder know the order of its tokens?

Everything the command line does, from a notebook:

    cfg = relpos.compose("pretrain", ["size=small", "position=composite"])
    model = relpos.build(cfg)
    run = relpos.run(cfg)
    module, data = relpos.lightning(cfg)  # for a Trainer of your own
    model, tokenizer = relpos.load(run.path)
    gap = relpos.order(run.path)["shuffle_gap"]["all"]
    guesses = relpos.FillMask(run.path)("the cat [MASK] on the mat")
    total = relpos.Score(run.path)("the cat sat on the mat").total

And its attention for a network of your own: `relpos.attention(q, k, v, offset=bias)`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omegaconf import DictConfig
    from pytorch_lightning import LightningDataModule, LightningModule
    from torch import nn

    from relpos.analysis import likelihood
    from relpos.data.tokenizer import Tokenizer
    from relpos.model.function import attention
    from relpos.model.heads import Classifier, MaskedLM
    from relpos.readers import Plain
    from relpos.runs.run import Run

__all__ = [
    "FillMask",
    "Score",
    "analysis",
    "attention",
    "build",
    "compose",
    "lightning",
    "load",
    "order",
    "run",
]


def compose(command: str, overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration that `relpos COMMAND OVERRIDES…` would use.

    Example:
        >>> cfg = compose("pretrain", ["position=alibi", "steps=10"])
        >>> cfg.steps, cfg.position._target_
        (10, 'relpos.model.position.Alibi')
    """
    from relpos.config.compose import compose as composed
    from relpos.trust import trust_typed

    return composed(command, trust_typed(overrides))


def build(cfg: DictConfig) -> MaskedLM | Classifier:
    """The network that the run of a configuration trains, with the weights of its first step;
    trains and reads no text.

    It is a masked language model for `pretrain`, a classifier for `finetune`. If the run starts
    from another one, the encoder has that run's weights, or its initial weights while it is not
    finished. The vocabulary is that of the tokenizer; until it is trained, as many pieces as
    `vocabulary` asks for. For `params`, `cost` and `analyze`, which train nothing, the seed is 0.

    Raises:
        RelposError: the command has no network; or size, position and convolution do not go
            together.

    Example:
        >>> model = build(compose("params", ["size=tiny", "position=tisa"]))
        >>> type(model.encoder.position).__name__
        'Tisa'
    """
    import torch

    from relpos.config.compose import resolved
    from relpos.errors import RelposError
    from relpos.model import build as building
    from relpos.model.architecture import Architecture
    from relpos.ranges import parsed
    from relpos.runs.plan import plan
    from relpos.stages.stage import TrainingStage

    with torch.random.fork_rng(devices=[]):
        if "stage" in cfg and isinstance(planned := plan(cfg), TrainingStage):
            return planned.model()
        if "size" not in cfg:
            raise RelposError(
                "this configuration has no network; those of pretrain, finetune, params, "
                "cost and analyze have one"
            )
        torch.manual_seed(0)
        network: MaskedLM = building.build(parsed(Architecture, resolved(cfg)))
        return network


def run(cfg: DictConfig | Plain) -> Run:
    """Executes the run of a configuration, or finds it done: `.path`, `.record`, `.metrics`.

    Example:
        >>> run(compose("data")).record["state"]
        'finished'
    """
    from relpos.runs.execute import execute
    from relpos.runs.plan import plan
    from relpos.stages.stage import refuse

    planned = plan(cfg)
    refuse(planned)
    return execute(planned)


def lightning(
    cfg: DictConfig | Plain,
) -> tuple[LightningModule, LightningDataModule]:
    """The LightningModule and the LightningDataModule of a pre-training or a fine-tuning, for a
    Trainer of your own. Runs that it needs (text, tokenizer, pre-training) are made first.

    `Trainer(max_steps=module.steps)` makes the updates of `relpos pretrain`; `heldout_loss`, or the
    columns of a task, are logged by each validation, and `ckpt_path` continues to the same result.

    Raises:
        RelposError: the configuration is none of `pretrain` or `finetune`; with the Trainer's
            `fit`, a switch of it that relpos has a key for, such as several devices.

    Example:
        >>> import pytorch_lightning as pl
        >>> overrides = ["size=tiny", "steps=2", "batch=4"]
        >>> module, data = lightning(compose("pretrain", overrides))
        >>> quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        >>> trainer = pl.Trainer(max_steps=module.steps, enable_model_summary=False, **quiet)
        >>> trainer.fit(module, datamodule=data)
        >>> "heldout_loss" in trainer.callback_metrics
        True
    """
    from relpos.errors import RelposError
    from relpos.runs.execute import execute
    from relpos.runs.plan import plan
    from relpos.stages.stage import TrainingStage, refuse

    planned = plan(cfg)
    if not isinstance(planned, TrainingStage):
        raise RelposError("this configuration trains nothing; those of pretrain and finetune do")
    refuse(planned)
    for needed in planned.inputs.values():
        execute(needed)
    module, data, _ = planned.parts()
    return module, data


def load(network: str | Path) -> tuple[nn.Module, Tokenizer | None]:
    """Network and tokenizer of a finished run, a model folder, a snapshot's file, a published
    checkpoint, or `TABLE:ROW`.

    A published checkpoint is a folder as `transformers` writes it, or the id of one on the Hugging
    Face hub. Its weights keep the number format in which they are stored; the network is the
    encoder alone where there are no weights of a head, and the tokenizer is None where there are no
    files of one.

    Raises:
        RelposError: there is no network, or it is one that cannot be expressed here; names the file
            and what is wrong.

    Example:
        >>> overrides = ["size=tiny", "steps=2", "batch=4", "evaluations=1"]
        >>> model, tokenizer = load(run(compose("pretrain", overrides)).path)
        >>> type(model).__name__
        'MaskedLM'
    """
    from relpos.data.published_tokenizer import has_tokenizer
    from relpos.pretrained.files import form_of
    from relpos.runs.networks import resolve

    resolved = resolve(network)
    tokenizer = None
    model = resolved.load()
    if has_tokenizer(resolved.folder) or not form_of(resolved.folder):
        tokenizer = resolved.tokenizer()
    return model, tokenizer


def order(*networks: str | Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """How much order the networks know: the content of the `order.json` that `relpos order
    network=[FOLDERS] OVERRIDES…` writes.

    Example:
        >>> bag_of_words = run(compose("pretrain", ["position=none", "steps=2", "batch=4", "evaluations=1"]))
        >>> gap = order(bag_of_words.path, overrides=["measure=[shuffle]", "examples=8"])["shuffle_gap"]
        >>> abs(gap["all"]) < 1e-5
        True
    """
    from relpos.config.arguments import spelled
    from relpos.config.compose import called
    from relpos.readers import read_json

    folder = Path(
        called("order", [f"network={spelled([str(folder) for folder in networks])}", *overrides])
    )
    content: Plain = read_json(folder / "order.json", dict)
    return content


def FillMask(network: str | Path) -> likelihood.FillMask:
    """A function: text with `[MASK]` → the most probable pieces at each masked token.

    Args:
        network: a pre-training's folder, a model folder, a snapshot's file, a published checkpoint,
            or `TABLE:ROW`.

    Example:
        >>> fill = FillMask(run(compose("pretrain", ["size=tiny", "steps=2", "batch=4", "evaluations=1"])).path)
        >>> [[best, second]] = fill("the [MASK] sleeps.", top=2)
        >>> best.probability >= second.probability
        True
    """
    from relpos.analysis.likelihood import FillMask as Filler
    from relpos.runs.networks import resolve

    resolved = resolve(network)
    return Filler(resolved.masked_lm(), resolved.tokenizer())


def Score(network: str | Path, form: str = "within_word") -> likelihood.Score:
    """A function: text → its pseudo-log-likelihood by token.

    Args:
        network: a pre-training's folder, a model folder, a snapshot's file, a published checkpoint,
            or `TABLE:ROW`.
        form: `within_word` masks the later pieces of a token's word with it, `plain` the token
            alone.

    Example:
        >>> score = Score(run(compose("pretrain", ["size=tiny", "steps=2", "batch=4", "evaluations=1"])).path)
        >>> scored = score("the dog sleeps.")
        >>> round(scored.total - sum(scored.log_probabilities), 6)
        0.0
    """
    from relpos.analysis.likelihood import Score as Scorer
    from relpos.runs.networks import resolve

    resolved = resolve(network)
    return Scorer(resolved.masked_lm(), resolved.tokenizer(), form)


def _register_with_transformers() -> None:
    """Lets `AutoConfig` and `AutoModel…` open exported networks that `transformers` has no class
    for. It takes effect when that library is imported, before or after relpos; `import relpos` does
    not import it."""
    from relpos.when_imported import when_imported

    def config() -> None:
        from transformers import AutoConfig

        from relpos.train.huggingface_config import RelposConfig

        AutoConfig.register("relpos", RelposConfig, exist_ok=True)

    def models() -> None:
        import transformers

        from relpos.train import huggingface
        from relpos.train.standalone import CLASSES

        for auto, ours in CLASSES.items():
            if auto != "AutoConfig":
                getattr(transformers, auto).register(
                    huggingface.RelposConfig,
                    getattr(huggingface, ours),
                    exist_ok=True,
                )

    when_imported("transformers.models.auto.configuration_auto", config)
    when_imported("transformers.models.auto.modeling_auto", models)


_register_with_transformers()


def __getattr__(name: str) -> Any:
    if name == "analysis":
        import importlib

        return importlib.import_module("relpos.analysis")
    if name == "attention":
        from relpos.model.function import attention

        return attention
    raise AttributeError(f"module 'relpos' has no attribute {name!r}")

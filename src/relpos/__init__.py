"""relpos: how should a Transformer encoder know the order of its tokens?

Everything the command line does, from a notebook:

    cfg = relpos.compose("pretrain", ["size=small", "position=composite"])
    model = relpos.build(cfg)
    run = relpos.run(cfg)
    model, tokenizer = relpos.load(run.path)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omegaconf import DictConfig
    from torch import nn

    from relpos.data.tokenizer import Tokenizer
    from relpos.model.heads import MaskedLM
    from relpos.runs import Run

__all__ = ["analysis", "build", "compose", "load", "run"]


def compose(command: str, words: Sequence[str] = ()) -> DictConfig:
    """The configuration that `relpos COMMAND WORDS…` would use."""
    from relpos.runs import compose as composed

    return composed(command, words)


def build(cfg: DictConfig) -> MaskedLM:
    """The network of a configuration, freshly initialised from torch's seed; touches no data."""
    from relpos.train.network import build_model

    return build_model(cfg)


def run(cfg: DictConfig) -> Run:
    """Executes the run of a configuration, or finds it done: `.path`, `.record`, `.metrics`."""
    from relpos.runs import execute, plan
    from relpos.runs.stages import refuse_absent

    planned = plan(cfg)
    refuse_absent(planned)
    return execute(planned)


def load(path: str | Path) -> tuple[nn.Module, Tokenizer]:
    """Network and tokenizer of a finished run, or of a model folder."""
    from relpos.data.tokenizer import Tokenizer
    from relpos.train.weights import load_model

    folder = Path(path) / "model" if (Path(path) / "model").is_dir() else Path(path)
    return load_model(folder), Tokenizer.load(folder)


def __getattr__(name: str) -> Any:
    if name == "analysis":
        import importlib

        return importlib.import_module("relpos.analysis")
    raise AttributeError(f"module 'relpos' has no attribute {name!r}")

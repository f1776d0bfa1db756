"""From a configuration to a network, without touching data."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from relpos.model.heads import MaskedLM
from relpos.train.weights import network


def build_model(cfg: DictConfig) -> MaskedLM:
    """The network that `size`, `position`, `conv` and `vocabulary` describe.

    Raises:
        RelposError: the combination means nothing; named.
    """
    nodes = {key: OmegaConf.to_container(cfg[key], resolve=True) for key in ("size", "position", "conv")}
    return network(nodes | {"vocabulary": cfg.vocabulary})

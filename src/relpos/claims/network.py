"""Networks and their position schemes from overrides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from omegaconf import DictConfig, OmegaConf

from relpos.config.compose import compose
from relpos.config.variation import varied

Nodes = dict[str, object]
"""`position` and `conv` as plain values."""


def configured(overrides: Sequence[str]) -> DictConfig:
    """The configuration of `compose("params", overrides)`, faster. It is not checked unless Hydra has to compose it.

    >>> configured(["position=tisa", "kernels=3"]).position.kernels
    3
    """
    cfg = varied(_defaults(), overrides)
    return compose("params", overrides) if cfg is None else cfg


def nodes(overrides: Sequence[str]) -> Nodes:
    """The position scheme and the convolution that these overrides give.

    >>> nodes(["position=none"])["position"]
    {'_target_': 'relpos.model.position.NoPosition', '_partial_': True}
    """
    cfg = configured(overrides)
    return {key: OmegaConf.to_container(cfg[key], resolve=True) for key in ("position", "conv")}


@cache
def position_parameters(*overrides: str) -> int:
    """How many parameters the position scheme of these overrides has. Only the scheme is built, not the network around it."""
    from relpos.model.position import Scheme
    from relpos.model.shape import Shape
    from relpos.trust import constructor

    cfg = configured(overrides)
    size = cfg.size
    shape = Shape(size.heads, size.hidden // size.heads, size.hidden, size.embedding, size.layers, size.max_positions)
    node = OmegaConf.to_container(cfg.position, resolve=True)
    assert isinstance(node, dict)
    scheme: Scheme = constructor({str(key): value for key, value in node.items()}, "position")(shape)
    return sum(parameter.numel() for parameter in scheme.parameters())


@cache
def _defaults() -> DictConfig:
    return compose("params")

"""What is varied without Hydra is what Hydra composes; what only Hydra can tell is left to it."""

from __future__ import annotations

import pytest
from omegaconf import DictConfig, OmegaConf

from relpos.config.compose import compose
from relpos.config.variation import varied
from schemes import CONVS, FULL, POSITIONS

ROW = ["position=composite", "k=3", "outside=zero", "conv=convbert", "conv.width=5", "conv.bias=false"]
ALL = [[f"position={position}"] for position in POSITIONS] + [[f"conv={conv}"] for conv in CONVS]


@pytest.fixture(scope="module")
def base() -> DictConfig:
    return compose("pretrain", ["size=small"])


@pytest.mark.parametrize("overrides", [ROW, *(ALL if FULL else [])], ids=" ".join)
def test_it_is_what_hydra_composes(base: DictConfig, overrides: list[str]) -> None:
    result = varied(base, overrides)
    assert result is not None
    composed = compose("pretrain", ["size=small", *overrides])
    assert OmegaConf.to_container(result, resolve=False) == OmegaConf.to_container(composed, resolve=False)


def test_the_base_stays_as_it_is(base: DictConfig) -> None:
    varied(base, ["position=tisa", "steps=7"])
    assert base == compose("pretrain", ["size=small"])


@pytest.mark.parametrize(
    "override",
    ["position=tsa", "nokey=1", "position.nokey=1", "+position.k=3", "~conv", "k=1,2", "position={k: 3}", "data/x@y=z", "k"],
)
def test_what_only_hydra_can_tell_is_left_to_it(base: DictConfig, override: str) -> None:
    assert varied(base, ["position=none", override]) is None

"""What the claims build without Hydra is what the commands would build."""

import pytest

from relpos.claims.network import configured, position_parameters
from relpos.model.build import count
from relpos.runs import compose
from relpos.train.network import build_model


def test_overrides_give_what_hydra_gives() -> None:
    overrides = ["size=tiny", "size.hidden=16", "position=absolute_tisa", "kernels=3", "conv=qk", "conv.fraction=1.0"]
    own, composed = configured(overrides), compose("params", overrides)
    assert all(own[key] == composed[key] for key in ("size", "position", "conv"))


@pytest.mark.parametrize("name", ["absolute", "tisa", "composite", "none"])
def test_parameters_are_those_of_the_scheme_in_a_network(name: str) -> None:
    overrides = ["size=tiny", f"position={name}"]
    assert position_parameters(*overrides) == count(build_model(compose("params", overrides)))["position"]

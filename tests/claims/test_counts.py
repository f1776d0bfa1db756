"""Rules about numbers of parameters, and how these are counted."""

import pytest

from relpos.claims.counts import position_parameters
from relpos.model.build import count
from relpos.runs import compose
from relpos.train.network import build_model


@pytest.mark.parametrize("name", ["absolute", "tisa", "composite", "none"])
def test_parameters_are_those_of_the_scheme_in_a_network(name: str) -> None:
    overrides = ["size=tiny", f"position={name}"]
    assert position_parameters(*overrides) == count(build_model(compose("params", overrides)))["position"]

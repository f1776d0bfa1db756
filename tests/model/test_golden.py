"""Training losses of every preset, as they were."""

import json

import pytest

import golden

EXPECTED: dict[str, list[float]] = json.loads(golden.PATH.read_text(encoding="utf-8"))


def test_every_preset_has_its_golden_losses():
    assert set(EXPECTED) == set(golden.names()), "write them with: make golden"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_losses_have_not_moved(name):
    assert golden.losses(name) == pytest.approx(EXPECTED[name], abs=1e-8)

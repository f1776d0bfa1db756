from __future__ import annotations

import json

import pytest

import golden
from schemes import SCHEMES

EXPECTED: dict[str, list[float]] = json.loads(golden.PATH.read_text(encoding="utf-8"))


def test_every_scheme_has_its_golden_losses() -> None:
    assert set(EXPECTED) == {scheme.__name__ for scheme in SCHEMES}, "write them with: python -m tests.golden"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_losses_have_not_moved(name: str) -> None:
    assert golden.losses(name) == pytest.approx(EXPECTED[name], abs=1e-8)

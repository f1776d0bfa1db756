"""What holds exactly holds, in exact and counts; with another formula it fails."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from relpos.claims import exact
from relpos.claims.counts import NoMoreThan, Ratios
from relpos.model.conv.separable import DepthwiseConv
from relpos.model.position import Dynamic, Fixed, Terms, Tisa


@pytest.mark.parametrize("test", [exact.ShawIsDynamic, exact.DepthwiseIsConvolution, exact.OrderIsIgnored, exact.TisaIsFixed])
def test_holds(test: Any) -> None:
    (found,) = test().findings(None)
    assert found.verdict == "holds", found.figures
    assert test.says


def fails(test: Any) -> bool:
    (found,) = test().findings(None)
    return bool(found.verdict == "fails")


def test_a_mirrored_kernel_is_not_shaws(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Dynamic.terms
    monkeypatch.setattr(Dynamic, "terms", lambda *given: Terms(query=right(*given).query.flip(-1)))  # type: ignore[union-attr]
    assert fails(exact.ShawIsDynamic)


def test_a_mirrored_convolution_is_not_equation_7(monkeypatch: pytest.MonkeyPatch) -> None:
    right = DepthwiseConv.forward
    monkeypatch.setattr(DepthwiseConv, "forward", lambda self, x: right(self, x.flip(1)).flip(1))
    assert fails(exact.DepthwiseIsConvolution)


def test_a_shifted_tisa_is_not_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Tisa.prepare
    monkeypatch.setattr(Tisa, "prepare", lambda self, n: tuple(beta.roll(1, -1) for beta in right(self, n)))
    assert fails(exact.TisaIsFixed)


def test_a_scheme_without_terms_would_ignore_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fixed, "terms", lambda self, layer, q, k, state: Terms(offset=torch.zeros_like(state[layer])))
    assert fails(exact.OrderIsIgnored)


def test_all_six_properties_are_found_by_trying() -> None:
    (found,) = exact.TisaHasAllProperties().findings(None)
    assert "all six: t5, tisa;" in found.figures
    assert found.verdict == "fails"  # T5 clips its distances, and serves any length all the same


def test_counts() -> None:
    (found,) = NoMoreThan(["fixed", "composite"], "absolute", "small").findings(None)
    assert (found.verdict, found.figures) == ("holds", "fixed 816, composite 13,872, absolute 16,384")
    assert NoMoreThan(["absolute"], "fixed", "small").findings(None)[0].verdict == "fails"
    table = ["position=absolute", "size=base", "size.max_positions=512"]
    assert Ratios(["position=tisa", "size=base"], 2160, [table]).findings(None)[0].verdict == "holds"
    assert Ratios(["position=tisa", "size=base"], 2160, [table], least=200).findings(None)[0].verdict == "fails"
    assert Ratios(["position=tisa", "size=base"], 2161, [table]).findings(None)[0].verdict == "fails"

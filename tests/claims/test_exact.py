"""What holds exactly holds, in exact and counts; with another formula it fails."""

import pytest
import torch

from relpos.claims import exact
from relpos.claims.counts import no_more_than, ratios
from relpos.claims.rule import Rule
from relpos.claims.scales import Scales
from relpos.model.conv.separable import DepthwiseConv
from relpos.model.position import Dynamic, Fixed, Terms, Tisa

NO_RUNS = Scales([])


@pytest.mark.parametrize(
    "rule", [exact.shaw_is_dynamic, exact.depthwise_is_convolution, exact.order_is_ignored, exact.tisa_is_fixed]
)
def test_holds(rule: Rule) -> None:
    (found,) = rule().verdicts(NO_RUNS)
    assert found.verdict == "holds", found.figures


def fails(rule: Rule) -> bool:
    (found,) = rule().verdicts(NO_RUNS)
    return bool(found.verdict == "fails")


def test_a_mirrored_kernel_is_not_shaws(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Dynamic.terms
    monkeypatch.setattr(Dynamic, "terms", lambda *given: Terms(query=right(*given).query.flip(-1)))  # type: ignore[union-attr]
    assert fails(exact.shaw_is_dynamic)


def test_a_mirrored_convolution_is_not_equation_7(monkeypatch: pytest.MonkeyPatch) -> None:
    right = DepthwiseConv.forward
    monkeypatch.setattr(DepthwiseConv, "forward", lambda self, x: right(self, x.flip(1)).flip(1))
    assert fails(exact.depthwise_is_convolution)


def test_a_shifted_tisa_is_not_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Tisa.prepare
    monkeypatch.setattr(Tisa, "prepare", lambda self, n: tuple(beta.roll(1, -1) for beta in right(self, n)))
    assert fails(exact.tisa_is_fixed)


def test_a_scheme_without_terms_would_ignore_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fixed, "terms", lambda self, layer, q, k, state: Terms(offset=torch.zeros_like(state[layer])))
    assert fails(exact.order_is_ignored)


def test_all_six_properties_are_found_by_trying() -> None:
    (found,) = exact.tisa_has_all_properties().verdicts(NO_RUNS)
    assert "all six: t5, tisa;" in found.figures
    assert found.verdict == "fails"  # T5 clips its distances, and serves any length all the same


SMALL = {"base": "absolute", "size": "small"}
TABLE = ["position=absolute", "size=base", "size.max_positions=512"]
TISA = {"overrides": ["position=tisa", "size=base"], "against": [TABLE]}


def test_schemes_have_no_more_parameters_than_another() -> None:
    (found,) = no_more_than(schemes=["fixed", "composite"], **SMALL).verdicts(NO_RUNS)
    assert (found.verdict, found.figures) == ("holds", "fixed 816, composite 13,872, absolute 16,384")
    (found,) = no_more_than(schemes=["absolute"], base="fixed", size="small").verdicts(NO_RUNS)
    assert found.verdict == "fails"


@pytest.mark.parametrize(("number", "least", "expected"), [(2160, 10, "holds"), (2160, 200, "fails"), (2161, 10, "fails")])
def test_a_number_of_parameters_and_its_ratio_to_others(number: int, least: int, expected: str) -> None:
    (found,) = ratios(**TISA, number=number, least=least).verdicts(NO_RUNS)
    assert found.verdict == expected

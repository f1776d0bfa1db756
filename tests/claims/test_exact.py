"""What holds exactly holds, and numbers of parameters are counted; with another formula it fails."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from relpos.claims import exact
from relpos.claims.exact import no_more_than, position_parameters, ratios
from relpos.claims.rule import Rule
from relpos.config.compose import compose, resolved
from relpos.model.build import count
from relpos.model.conv.separable import DepthwiseConv
from relpos.model.position import Dynamic, Fixed, Terms, Tisa
from relpos.results.scale import Scales
from relpos.train.network import network

NO_RUNS = Scales([])


@pytest.mark.parametrize(
    "rule", [exact.shaw_is_dynamic, exact.depthwise_is_convolution, exact.order_is_ignored, exact.tisa_is_fixed]
)
def test_holds(rule: Rule) -> None:
    (found,) = rule().verdicts(NO_RUNS)
    assert found.verdict == "holds", found.figures


MIRRORED: dict[str, tuple[Rule, type[Any], str, Callable[[Any], Any]]] = {
    "a mirrored kernel is not Shaw's": (
        exact.shaw_is_dynamic, Dynamic, "terms", lambda right: lambda *given: Terms(query=right(*given).multiplied().query.flip(-1))
    ),
    "a mirrored convolution is not Eq. 7": (
        exact.depthwise_is_convolution, DepthwiseConv, "forward", lambda right: lambda self, x: right(self, x.flip(1)).flip(1)
    ),
    "a shifted TISA is not the paper's": (
        exact.tisa_is_fixed, Tisa, "prepare", lambda right: lambda self, n: tuple(beta.roll(1, -1) for beta in right(self, n))
    ),
    "a scheme without terms would ignore order": (
        exact.order_is_ignored, Fixed, "terms",
        lambda right: lambda self, layer, q, k, state: Terms(offset=torch.zeros_like(state[layer])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MIRRORED)
def test_with_another_formula_it_fails(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule, of, method, other = MIRRORED[what]
    monkeypatch.setattr(of, method, other(getattr(of, method)))
    (found,) = rule().verdicts(NO_RUNS)
    assert found.verdict == "fails"


def test_all_six_properties_are_found_by_trying() -> None:
    (found,) = exact.tisa_has_all_properties().verdicts(NO_RUNS)
    assert "all six: tisa;" in found.figures
    assert "t5 lacks inductive" in found.figures  # its distances end at 128, though it serves any length
    assert found.verdict == "holds"


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


@pytest.mark.parametrize("name", ["absolute", "tisa", "composite", "none"])
def test_parameters_are_those_of_the_scheme_in_a_network(name: str) -> None:
    overrides = ["size=tiny", f"position={name}"]
    assert position_parameters(*overrides) == count(network(resolved(compose("params", overrides))))["position"]

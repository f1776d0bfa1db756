"""What holds exactly holds, and parameters are counted; with another formula it fails."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from claims.made_up import only
from relpos.claims.exact import FORMULAS, Computed, Parameters, position_parameters
from relpos.config.compose import compose, resolved
from relpos.model.build import count
from relpos.model.conv.separable import DepthwiseConv
from relpos.model.position import Dynamic, Fixed, Terms, Tisa
from relpos.results.scale import Scales
from relpos.train.network import network

NO_RUNS = Scales([])


@pytest.mark.parametrize("what", [each.__name__ for each in FORMULAS])
def test_a_formula_of_a_paper_holds(what: str) -> None:
    found = only(Computed(what).verdicts(NO_RUNS))
    assert found.verdict == "holds", found.figures


MIRRORED: dict[str, tuple[str, type[Any], str, Callable[[Any], Any]]] = {
    "a mirrored kernel is not Shaw's": (
        "shaw_is_dynamic", Dynamic, "terms",
        lambda right: lambda *given: Terms(query=right(*given).multiplied().query.flip(-1)),
    ),
    "a mirrored convolution is not Eq. 7": (
        "depthwise_is_convolution", DepthwiseConv, "forward",
        lambda right: lambda self, x: right(self, x.flip(1)).flip(1),
    ),
    "a shifted TISA is not the paper's": (
        "tisa_is_fixed", Tisa, "prepare",
        lambda right: lambda self, n: tuple(beta.roll(1, -1) for beta in right(self, n)),
    ),
    "a scheme without terms would ignore order": (
        "order_is_ignored", Fixed, "terms",
        lambda right: lambda self, layer, q, k, state: Terms(offset=torch.zeros_like(state[layer])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MIRRORED)
def test_with_another_formula_it_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    what, of, method, other = MIRRORED[name]
    monkeypatch.setattr(of, method, other(getattr(of, method)))
    assert only(Computed(what).verdicts(NO_RUNS)).verdict == "fails"


def test_all_six_properties_are_found_by_trying() -> None:
    found = only(Computed("tisa_has_all_properties").verdicts(NO_RUNS))
    assert "all six: tisa;" in found.figures
    assert "t5 lacks inductive" in found.figures  # its distances end at 128
    assert found.verdict == "holds"


FEW, MANY = (
    ["position=fixed size=small", "position=composite size=small"],
    ["position=absolute size=small"],
)


@pytest.mark.parametrize(
    ("few", "many", "times", "number", "expected"),
    [
        (FEW, MANY, 1, None, "holds"),
        (MANY, FEW, 1, None, "fails"),
        (FEW, MANY, 2, None, "fails"),
        (FEW[:1], MANY, 20, 816, "holds"),
        (FEW[:1], MANY, 20, 817, "fails"),
    ],
)
def test_parameters_are_counted(
    few: list[str], many: list[str], times: float, number: int | None, expected: str
) -> None:
    found = only(Parameters(few, many, times, number).verdicts(NO_RUNS))
    assert found.verdict == expected
    assert "position=absolute size=small: 16,384" in found.figures


@pytest.mark.parametrize("name", ["absolute", "tisa", "composite", "none"])
def test_parameters_are_those_of_the_scheme_in_a_network(name: str) -> None:
    overrides = ["size=tiny", f"position={name}"]
    counted = count(network(resolved(compose("params", overrides))))
    assert position_parameters(*overrides) == counted["position"]

"""Formulas are proven by tests that are there, properties are tried out, and parameters are
counted."""

import re

import pytest

from claims.made_up import only
from relpos.claims.claim import load
from relpos.claims.exact import AllProperties, Parameters, Proven, position_parameters
from relpos.config.compose import compose, resolved
from relpos.model.architecture import Architecture
from relpos.model.build import build, count
from relpos.ranges import parsed
from relpos.results.scale import Scales
from tests.packaging.links import ROOT

NO_RUNS = Scales([])


def test_a_proven_claim_holds_and_names_tests_that_are_there():
    proven = [claim for claim in load("all") if isinstance(claim.judgement, Proven)]
    assert [claim.id for claim in proven] == ["C22", "C23", "C24", "X01"]
    for claim in proven:
        assert [verdict.verdict for verdict in claim.verdicts(NO_RUNS)] == ["holds"]
        for by in claim.judgement.by:
            file, _, name = by.partition("::")
            assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.M), by


@pytest.mark.parametrize(("scheme", "expected"), [("tisa", "holds"), ("rope", "fails")])
def test_all_six_properties_are_found_by_trying(scheme, expected):
    verdict = only(AllProperties(scheme).verdicts(NO_RUNS))
    assert verdict.verdict == expected
    assert "all six: tisa;" in verdict.figures
    assert "t5 lacks inductive" in verdict.figures  # its distances end at 128


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
def test_parameters_are_counted(few, many, times, number, expected):
    verdict = only(Parameters(few, many, times, number).verdicts(NO_RUNS))
    assert verdict.verdict == expected
    assert "position=absolute size=small: 16,384" in verdict.figures


@pytest.mark.parametrize("name", ["absolute", "tisa", "composite", "none"])
def test_parameters_are_those_of_the_scheme_in_a_network(name):
    overrides = ["size=tiny", f"position={name}"]
    counted = count(build(parsed(Architecture, resolved(compose("params", overrides)))))
    assert position_parameters(*overrides) == counted["position"]

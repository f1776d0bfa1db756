"""Rules about numbers of parameters, counted on the position scheme itself."""

from __future__ import annotations

from relpos.claims.network import position_parameters
from relpos.claims.rule import Place, Rule, Test, once
from relpos.claims.verdict import FAILS, HOLDS, Verdict


def _no_more_than(test: Test, place: Place) -> Verdict:
    """Every one of `schemes` has at most as many parameters as `base`, in a network of the same size."""
    schemes, base, size = (test.options[key] for key in ("schemes", "base", "size"))
    counts = {name: position_parameters(f"position={name}", f"size={size}") for name in (*schemes, base)}
    holds = all(counts[name] <= counts[base] for name in schemes)
    figures = ", ".join(f"{name} {number:,}" for name, number in counts.items())
    return Verdict(HOLDS if holds else FAILS, figures, f"size={size}")


def _no_more_says(test: Test) -> str:
    schemes, base, size = (test.options[key] for key in ("schemes", "base", "size"))
    return f"{', '.join(schemes)} have no more parameters than {base} at size={size}"


def _ratios(test: Test, place: Place) -> Verdict:
    """One scheme has exactly `number` parameters, and each of the others at least `least` times as many.

    `overrides` give the scheme and the size of the network; `against` has such overrides for each of the others.
    """
    count = position_parameters(*test.options["overrides"])
    others = {" ".join(overrides): position_parameters(*overrides) for overrides in test.options["against"]}
    least = test.options["least"]
    holds = count == test.options["number"] and all(other >= least * count for other in others.values())
    said = [f"{name}: {other:,}, {other / count:,.0f} times" for name, other in others.items()]
    return Verdict(HOLDS if holds else FAILS, "; ".join([f"{count:,}", *said]))


def _ratios_says(test: Test) -> str:
    overrides, number, least = (test.options[key] for key in ("overrides", "number", "least"))
    return f"{' '.join(overrides)}: {number:,} parameters; the others at least {least:g} times as many"


no_more_than = Rule(_no_more_than, {"schemes": (), "base": "", "size": ""}, _no_more_says, lambda test: None, once)
ratios = Rule(_ratios, {"overrides": (), "number": 0, "against": (), "least": 10.0}, _ratios_says, lambda test: None, once)

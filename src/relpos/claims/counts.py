"""Rules about numbers of parameters, counted on the position scheme itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from relpos.claims.rule import Test, once, rule
from relpos.claims.verdict import FAILS, HOLDS, Verdict
from relpos.config.compose import composed, resolved
from relpos.model.position import Scheme
from relpos.model.shape import Shape
from relpos.trust import constructor


@cache
def position_parameters(*overrides: str) -> int:
    """How many parameters the position scheme of these overrides has. Only the scheme is built, not the network around it."""
    config = resolved(composed("params", overrides))
    size = config["size"]
    width = size["hidden"] // size["heads"]
    shape = Shape(size["heads"], width, size["hidden"], size["embedding"], size["layers"], size["max_positions"])
    built: Scheme = constructor(config["position"], "position")(shape)
    return sum(parameter.numel() for parameter in built.parameters())


@rule(
    lambda test: "{0} have no more parameters than {base} at size={size}".format(
        ", ".join(test.options["schemes"]), **test.options
    ),
    places=once,
)
def no_more_than(test: Test, *, schemes: Sequence[str], base: str, size: str) -> Verdict:
    """Every one of `schemes` has at most as many parameters as `base`, in a network of the same size."""
    # Counted on the modules and not by formula: the formulas are tested against these.
    counts = {name: position_parameters(f"position={name}", f"size={size}") for name in (*schemes, base)}
    holds = all(counts[name] <= counts[base] for name in schemes)
    figures = ", ".join(f"{name} {number:,}" for name, number in counts.items())
    return Verdict(HOLDS if holds else FAILS, figures, f"size={size}")


def _ratios_says(test: Test) -> str:
    overrides, number, least = (test.options[key] for key in ("overrides", "number", "least"))
    return f"{' '.join(overrides)}: {number:,} parameters; the others at least {least:g} times as many"


@rule(_ratios_says, places=once)
def ratios(test: Test, *, overrides: Sequence[str], number: int, against: Sequence[Sequence[str]], least: float = 10.0) -> Verdict:
    """One scheme has exactly `number` parameters, and each of the others at least `least` times as many.

    `overrides` give the scheme and the size of the network; `against` has such overrides for each of the others.
    """
    count = position_parameters(*overrides)
    others = {" ".join(other): position_parameters(*other) for other in against}
    holds = count == number and all(other >= least * count for other in others.values())
    said = [f"{name}: {other:,}, {other / count:,.0f} times" for name, other in others.items()]
    return Verdict(HOLDS if holds else FAILS, "; ".join([f"{count:,}", *said]))

"""Rules that need no training: equalities of formulas, properties of schemes, and numbers of parameters."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from relpos.analysis import identities
from relpos.analysis.properties import properties, randomise
from relpos.claims.rule import Rule, Test, once, rule
from relpos.claims.verdict import FAILS, HOLDS, Verdict
from relpos.config.compose import composed, resolved
from relpos.config.conf import shipped
from relpos.model.position import Scheme
from relpos.model.shape import Shape
from relpos.process import one_thread
from relpos.train.network import build_model
from relpos.trust import constructor

TINY = (
    "size=tiny",
    "size.hidden=16",
    "size.embedding=8",
    "size.heads=4",
    "size.ffn=16",
    "size.max_positions=16",
    "vocabulary=40",
    "k=2",
)


def network(*overrides: str) -> Any:
    """A tiny masked language model in float64 with random weights, so that no term vanishes."""
    torch.manual_seed(0)
    model = build_model(resolved(composed("params", [*TINY, *overrides]))).double().eval()
    randomise(model, seed=1)
    return model


@cache
def position_parameters(*overrides: str) -> int:
    """How many parameters the position scheme of these overrides has. Only the scheme is built, not the network around it."""
    config = resolved(composed("params", overrides))
    size = config["size"]
    width = size["hidden"] // size["heads"]
    shape = Shape(size["heads"], width, size["hidden"], size["embedding"], size["layers"], size["max_positions"])
    built: Scheme = constructor(config["position"], "position")(shape)
    return sum(parameter.numel() for parameter in built.parameters())


@cache
def has_properties(name: str) -> dict[str, bool]:
    """Property of Table 1 → whether a scheme has it, see `relpos.analysis.properties`; parameters are counted at size=base."""
    count, table = (position_parameters(f"position={each}", "size=base") for each in (name, "absolute"))
    return properties(network(f"position={name}"), lambda model: list(model.encoder.position.parameters()), count, table)


def _tisa_alone_has_all(_: object) -> tuple[bool, str]:
    has = {name: has_properties(name) for name in methods_of_table_1()}
    complete = [name for name, of_method in has.items() if all(of_method.values())]
    lacking = {name: ", ".join(key for key, yes in of_method.items() if not yes) for name, of_method in has.items()}
    said = [f"{name} lacks {what}" for name, what in lacking.items() if what]
    return complete == ["tisa"], f"all six: {', '.join(complete) or 'none'}; {'; '.join(said)}"


def _computed(says: str, compute: Callable[[Callable[..., Any]], tuple[bool, str]]) -> Rule:
    """The rule of a computation on tiny networks that returns whether the claim holds, and the figures that show it."""

    def judge(test: Test) -> Verdict:
        with one_thread():
            holds, figures = compute(network)
        return Verdict(HOLDS if holds else FAILS, figures)

    return rule(says, places=once)(judge)


shaw_is_dynamic = _computed("both forms give the same scores", identities.shaw_is_dynamic)
depthwise_is_convolution = _computed(
    "attention with the kernel inside equals attention plus a depthwise convolution of the values",
    identities.depthwise_is_convolution,
)
order_is_ignored = _computed(
    "permuting the tokens permutes the outputs without positions, and not with lightweight convolutions",
    identities.order_is_ignored,
)
tisa_is_fixed = _computed("a fixed kernel that holds f(j − i) gives the scores of TISA", identities.tisa_is_fixed)
tisa_has_all_properties = _computed(
    "of the methods of Table 1 tisa alone shows all six properties when they are tried out (parameters: at size=base)",
    _tisa_alone_has_all,
)


def methods_of_table_1() -> dict[str, dict[str, str]]:
    """The position schemes of Table 1 of Wennberg & Henter (2021), as options of `position` → what is printed of them."""
    with (shipped("experiments") / "printed" / "wennberg2021_properties.csv").open(newline="", encoding="utf-8") as file:
        return {row["position"]: row for row in csv.DictReader(file)}


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
    figures = ", ".join(f"{name} {number:,}" for name, number in counts.items())
    return Verdict(HOLDS if counts[base] == max(counts.values()) else FAILS, figures, f"size={size}")


@rule(
    lambda test: "{0}: {number:,} parameters; the others at least {least:g} times as many".format(
        " ".join(test.options["overrides"]), **test.options
    ),
    places=once,
)
def ratios(test: Test, *, overrides: Sequence[str], number: int, against: Sequence[Sequence[str]], least: float = 10.0) -> Verdict:
    """One scheme has exactly `number` parameters, and each of the others at least `least` times as many.

    `overrides` give the scheme and the size of the network; `against` has such overrides for each of the others.
    """
    count = position_parameters(*overrides)
    others = {" ".join(other): position_parameters(*other) for other in against}
    holds = count == number and all(other >= least * count for other in others.values())
    said = [f"{name}: {other:,}, {other / count:,.0f} times" for name, other in others.items()]
    return Verdict(HOLDS if holds else FAILS, "; ".join([f"{count:,}", *said]))

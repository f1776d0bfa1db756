"""The claims as data: `experiments/claims/PAPER.yaml` has id → the claim, its place in the paper, the printed figures, its test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from relpos import ranges
from relpos.claims.rule import Rule, Test
from relpos.claims.verdict import Verdict
from relpos.config.conf import shipped
from relpos.errors import RelposError, nearest, refuse_unknown
from relpos.readers import read_yaml
from relpos.results import scale, values
from relpos.results.gain import MEASURES, Contrast
from relpos.results.scale import Scales
from relpos.tables.experiment import experiments, pilot_seeds

ROWS = "rows"
"""The file that says which overrides make a row; every other file is a paper."""
TEXTS = ("says", "source", "printed", "restated", "checkpoints", "run", "run_nats")


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, or a variant of one: the same comparison of rows in another measure than the paper's.

    Args:
        id: C01 … of Chang et al. 2021, W01 … of Wennberg & Henter 2021, X01 … across them; C01/loss and C01/order are variants.
        says: the claim, in our words.
        source: table, figure or section.
        printed: the paper's figures; on test sets unless they say dev.
        restated: how the test differs from the paper's words, and why, if these could not be decided even if they are true.
        test: the `rule` that tests it (`comparisons.higher` is `higher` in `relpos.claims.comparisons`) and its arguments.
        variants: measure → bound in nats; for each of these measures a claim that compares rows has a variant.
        paper: the file that it stands in.
        checkpoints: whether fine-tunings of published checkpoints test it: `too`, `only`, or not (empty).
        run: arguments of `relpos reproduce` that make runs which decide it; empty where no experiment file has them.
        run_nats: the same for its variants.
        measure: a variant's, `loss` (held-out loss) or `order` (shuffle gap over all words); None: the claim itself.
    """

    id: str
    says: str
    source: str
    printed: str
    test: Mapping[str, Any]
    variants: Mapping[str, float] = field(default_factory=dict)
    measure: str | None = None
    restated: str = ""
    checkpoints: str = ""
    run: str = ""
    run_nats: str = ""
    paper: str = ""

    @cached_property
    def tester(self) -> Test:
        """The test.

        Raises:
            RelposError: there is no such rule, it does not take these arguments, or it has no variants and this is one.
        """
        arguments = dict(self.test)
        try:
            test = _rule(str(arguments.pop("rule", "")))(**arguments)
        except (TypeError, RelposError) as error:
            raise RelposError(f"claim {self.id}: test: {error}") from None
        if self.measure is None:
            return test
        variant = test.variant(self.measure, self.variants[self.measure])
        if variant is None:
            raise RelposError(f"claim {self.id}: variants: {self.test['rule']} does not compare rows")
        return variant

    def verdicts(self, runs: Scales) -> list[Verdict]:
        """The verdict at each scale that says something of the claim.

        Fine-tunings of published checkpoints come last, where a verdict decides: the claim is about such networks.
        """
        found = [] if self.checkpoints == "only" else self.tester.verdicts(runs)
        return found + (replace(self.tester, note="").verdicts(Scales(runs.tuned)) if self.checkpoints else [])

    def with_variants(self) -> list[Claim]:
        """The claim, then its variants."""
        # A variant is a measure that the paper did not take: it printed nothing in it, and fine-tunings have none.
        own = replace(self, printed="", restated="", checkpoints="", run=self.run_nats)
        return [self] + [
            replace(own, id=f"{self.id}/{measure}", says=f"{MEASURES[measure]} of these rows: {self.says}", measure=measure)
            for measure in self.variants
        ]


def _rule(name: str) -> Rule:
    """The rule of this name, or a RelposError; nothing outside of `relpos.claims` is imported."""
    known = {path.stem for path in Path(__file__).parent.glob("*.py")}
    module, _, rule = name.partition(".")
    rules = vars(import_module(f"relpos.claims.{module}")) if module in known else {}
    if isinstance(found := rules.get(rule), Rule):
        return found
    likely = [f"{module}.{key}" for key, value in rules.items() if isinstance(value, Rule)] or sorted(known)
    raise RelposError(f"unknown rule {name!r}.{nearest(name, likely)}")


def load(paper: str) -> list[Claim]:
    """The claims of a paper, or of `all`, each followed by its variants.

    Raises:
        RelposError: there is no such paper, or a key is wrong.
    """
    papers = sorted(path.stem for path in _folder().glob("*.yaml") if path.stem != ROWS)
    if paper == "all":
        return sorted((claim for name in papers for claim in load(name)), key=lambda claim: claim.id)
    if paper not in papers:
        raise RelposError(f"paper={paper}: unknown.{nearest(paper, [*papers, 'all'])}")
    claims: list[Claim] = []
    for name, content in _read(paper).items():
        for key in content:
            refuse_unknown(f"claim {name}: unknown key", key, (*TEXTS, "test", "variants"))
        for measure in content.get("variants", {}):
            refuse_unknown(f"claim {name}: variants: unknown measure", measure, MEASURES)
        texts = {key: str(content.get(key, "")) for key in TEXTS}
        ranges.check(f"claim {name}: checkpoints", texts["checkpoints"], Literal["", "too", "only"])
        claims += Claim(str(name), **texts, test=content["test"], variants=content.get("variants", {}), paper=paper).with_variants()
    return claims


def families(claims: Sequence[Claim]) -> list[list[Claim]]:
    """What a paper claims in one measure, for each paper and measure of these claims: chance is corrected for among such tests."""
    # All of the family, asked for or not: a verdict must not depend on what else is on the page.
    known = {claim.id: claim for claim in [*load("all"), *claims]}
    kinds = dict.fromkeys((claim.paper, claim.measure) for claim in claims)
    return [[claim for claim in known.values() if (claim.paper, claim.measure) == kind] for kind in kinds]


def compared(claims: Iterable[Claim], measure: str) -> dict[str, tuple[float, Sequence[Contrast]]]:
    """Claim → bound, and the pairs of rows that it compares at one scale in this measure (`loss` or `order`)."""
    return {
        claim.id: (claim.variants[measure], claim.tester.contrasts)
        for claim in claims
        if claim.measure == measure and claim.tester.rule.by_contrast
    }


def rows() -> dict[str, list[str]]:
    """Row → the overrides that make it."""
    return {str(name): [str(override) for override in overrides] for name, overrides in _read(ROWS).items()}


def scales(checkpoints: Iterable[str] = ()) -> Scales:
    """What claims are tested with: all finished runs below `$RELPOS_RUNS`, and the published networks that are named."""
    known = values.read()
    found = scale.scales(known, rows(), pilot_seeds(experiments()))
    found.tuned, found.published = scale.tuned_checkpoints(known), scale.published_checkpoints(checkpoints)
    return found


def _folder() -> Path:
    return shipped("experiments") / "claims"


def _read(name: str) -> dict[str, Any]:
    return dict(read_yaml(_folder() / f"{name}.yaml"))

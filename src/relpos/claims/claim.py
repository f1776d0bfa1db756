"""Claims as data: `experiments/claims/PAPER.yaml` has id → the claim, its place in the paper,
the printed figures, and the test that judges it or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from relpos.claims.contrasts import Contrasts
from relpos.claims.exact import Computed, Parameters
from relpos.claims.networks import Shares, Toeplitzness
from relpos.claims.verdict import Judgement, Verdict, joined
from relpos.config.conf import shipped
from relpos.errors import RelposError, nearest, refuse_unknown
from relpos.readers import fitted, read_yaml
from relpos.results import scale, values
from relpos.results.gain import MEASURES, Contrast
from relpos.results.scale import Scales
from relpos.tables.experiment import experiments, pilot_seeds

Shape = TypeVar("Shape")
RULES: dict[str, type[Judgement]] = {
    "contrast": Contrasts,
    "share": Shares,
    "toeplitz": Toeplitzness,
    "computed": Computed,
    "parameters": Parameters,
}
"""`rule` of a claim → the class whose fields are the other keys under `test`."""
ROWS = "rows"
"""The file with row → overrides; every other file is a paper."""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, or a variant: the same comparison of rows in another measure.

    Args:
        id: C01 … of Chang et al. 2021, W01 … of Wennberg & Henter 2021, X01 … across them;
            C01/loss and C01/order are variants.
        says: the claim, in our words.
        source: table, figure or section.
        printed: the paper's figures; on test sets unless they say dev.
        test: the `rule` by which it is judged, and its arguments; empty: it is not tested.
        not_tested: why there is no test, and what would test it.
        variants: measure → bound in nats; in each of these measures a contrast has a variant.
        paper: its file.
        restated: how the judgement differs from the paper's words, and why.
        remark: a caution that is shown beside the verdict.
        checkpoints: whether fine-tunings of published checkpoints are judged: `too`, `only` or not.
        run: arguments of `relpos reproduce` that make the runs which decide it.
        run_nats: the same for its variants.
        measure: a variant's, `loss` (held-out loss) or `order` (shuffle gap over all words).
    """

    id: str
    says: str = ""
    source: str = ""
    printed: str = ""
    test: Mapping[str, object] = field(default_factory=dict)
    not_tested: str = ""
    variants: Mapping[str, float] = field(default_factory=dict)
    measure: str | None = None
    restated: str = ""
    remark: str = ""
    checkpoints: Literal["", "too", "only"] = ""
    run: str = ""
    run_nats: str = ""
    paper: str = ""

    @cached_property
    def judgement(self) -> Judgement | None:
        """The judgement that `test` describes; None without a test.

        Raises:
            RelposError: there is no such rule, it does not take these arguments, or the claim is a
                variant and its rule has none.
        """
        if not self.test:
            return None
        arguments = {**self.test}
        rule = str(arguments.pop("rule", ""))
        try:
            refuse_unknown("unknown rule", rule, RULES)
            for key in arguments:
                refuse_unknown(
                    "unknown argument", key, [field.name for field in fields(RULES[rule])]
                )
            judgement: Judgement | None = fitted(arguments, RULES[rule])
        except RelposError as error:
            raise RelposError(f"claim {self.id}: test: {error}") from None
        if judgement and self.measure:
            judgement = judgement.in_nats(self.measure, self.variants[self.measure])
            if judgement is None:
                raise RelposError(f"claim {self.id}: variants: {rule} does not compare rows")
        return judgement

    def verdicts(self, runs: Scales) -> list[Verdict]:
        """The verdict at each scale that shows something about the claim.

        Fine-tunings of published checkpoints come last, because the headline is the last verdict.
        """
        if self.judgement is None:
            return []
        verdicts = [] if self.checkpoints == "only" else self.judgement.verdicts(runs)
        if self.checkpoints:
            for place, verdict in enumerate(verdicts):
                verdicts[place] = replace(
                    verdict, figures=joined([verdict.figures, "from scratch"])
                )
            verdicts += self.judgement.verdicts(Scales(runs.tuned))
        return verdicts

    def with_variants(self) -> list[Claim]:
        """The claim, then its variants."""
        # The paper printed nothing in the measure of a variant.
        unprinted = replace(self, printed="", restated="", remark="", run=self.run_nats)
        variants = [self]
        for measure in self.variants:
            says = f"{MEASURES[measure]} of these rows: {self.says}"
            variants.append(
                replace(unprinted, id=f"{self.id}/{measure}", says=says, measure=measure)
            )
        return variants


def load(paper: str) -> list[Claim]:
    """The claims of a paper, or of `all`, each followed by its variants.

    Raises:
        RelposError: there is no such paper, or a key is wrong.
    """
    papers = sorted(path.stem for path in _folder().glob("*.yaml") if path.stem != ROWS)
    if paper == "all":
        claims_of_all = [claim for name in papers for claim in load(name)]
        return sorted(claims_of_all, key=lambda claim: claim.id)
    if paper not in papers:
        raise RelposError(f"paper={paper}: unknown.{nearest(paper, [*papers, 'all'])}")
    claims: list[Claim] = []
    for name, content in _read(paper, dict[str, dict[str, object]]).items():
        claims += _claim(name, content, paper).with_variants()
    return claims


def _claim(name: str, content: Mapping[str, object], paper: str) -> Claim:
    for key in content:
        keys = {key_field.name for key_field in fields(Claim)} - {"id", "paper", "measure"}
        refuse_unknown(f"claim {name}: unknown key", key, keys)
    try:
        claim: Claim = fitted({**content, "id": name, "paper": paper}, Claim)
    except RelposError as error:
        raise RelposError(f"claim {name}: {error}") from None
    if bool(claim.test) == bool(claim.not_tested):
        raise RelposError(f"claim {name}: needs test, or not_tested: why, and what would test it")
    for measure in claim.variants:
        refuse_unknown(f"claim {name}: variants: unknown measure", measure, MEASURES)
    return claim


def families(claims: Sequence[Claim]) -> list[list[Claim]]:
    """The families of tests among which chance is corrected for: all claims of a paper in one
    measure, for each paper and measure of these claims."""
    # A family is complete, because a verdict must not depend on the other claims of the page.
    by_id = {claim.id: claim for claim in [*load("all"), *claims]}
    kinds = dict.fromkeys((claim.paper, claim.measure) for claim in claims)
    return [
        [claim for claim in by_id.values() if (claim.paper, claim.measure) == kind]
        for kind in kinds
    ]


def compared(claims: Iterable[Claim], measure: str) -> dict[str, tuple[float, Sequence[Contrast]]]:
    """Claim → bound, and the pairs of rows that it compares in a measure (`loss`, `order`)."""
    pairs = {}
    for claim in claims:
        if claim.measure == measure and isinstance(claim.judgement, Contrasts):
            pairs[claim.id] = (claim.variants[measure], claim.judgement.contrasts)
    return pairs


def rows() -> dict[str, list[str]]:
    """Row → its overrides."""
    return _read(ROWS, dict[str, list[str]])


def scales() -> Scales:
    """All finished runs below `$RELPOS_RUNS`, by which claims are judged."""
    of_runs = values.read()
    runs = scale.scales(of_runs, rows(), pilot_seeds(experiments()))
    runs.tuned = scale.tuned_checkpoints(of_runs)
    return runs


def _folder() -> Path:
    return shipped("experiments") / "claims"


def _read(name: str, shape: type[Shape]) -> Shape:
    content: Shape = fitted(read_yaml(_folder() / f"{name}.yaml"), shape)
    return content

"""Claims as data: `experiments/claims/PAPER.yaml` has id → the claim, its place in the paper,
the printed figures, and the test that judges it or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from relpos.claims.contrasts import Contrasts
from relpos.claims.exact import AllProperties, Parameters, Proven
from relpos.claims.networks import Shares, Toeplitzness
from relpos.claims.verdict import Judgement, Verdict, joined
from relpos.config.conf import shipped
from relpos.errors import RelposError, nearest, refuse_unknown
from relpos.readers import fitted, read_yaml
from relpos.results import scale, tuned, values
from relpos.results.gain import MEASURES
from relpos.results.scale import Scales
from relpos.tables.experiment import experiments, pilot_seeds

RULES: dict[str, type[Judgement]] = {
    "contrast": Contrasts,
    "share": Shares,
    "toeplitz": Toeplitzness,
    "proven": Proven,
    "properties": AllProperties,
    "parameters": Parameters,
}
"""`rule` of a claim → the class whose fields are the other keys under `test`."""


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
        where, arguments = f"claim {self.id}: test", {**self.test}
        rule = str(arguments.pop("rule", ""))
        refuse_unknown(f"{where}: unknown rule", rule, RULES)
        judgement: Judgement | None = _parsed(RULES[rule], where, arguments)
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
        if not self.checkpoints:
            return self.judgement.verdicts(runs)
        verdicts = []
        if self.checkpoints == "too":
            for verdict in self.judgement.verdicts(runs):
                figures = joined([verdict.figures, "from scratch"])
                verdicts.append(replace(verdict, figures=figures))
        return verdicts + self.judgement.verdicts(Scales(runs.tuned))

    def with_variants(self) -> list[Claim]:
        """The claim, then its variants."""
        # The paper printed nothing in the measure of a variant.
        unprinted = replace(self, printed="", restated="", remark="", run=self.run_nats)
        variants = [self]
        for measure in self.variants:
            name = f"{self.id}/{measure}"
            says = f"{MEASURES[measure]} of these rows: {self.says}"
            variants.append(replace(unprinted, id=name, says=says, measure=measure))
        return variants


def load(paper: str) -> list[Claim]:
    """The claims of a paper, or of `all`, each followed by its variants.

    Raises:
        RelposError: there is no such paper, or a key is wrong.
    """
    papers = sorted(path.stem for path in _folder().glob("*.yaml") if path.stem != "rows")
    if paper == "all":
        return sorted(chain.from_iterable(map(load, papers)), key=lambda claim: claim.id)
    if paper not in papers:
        raise RelposError(f"paper={paper}: unknown.{nearest(paper, [*papers, 'all'])}")
    claims = []
    for name, content in _read(paper, dict[str, dict[str, object]]).items():
        where = f"claim {name}"
        claim: Claim = _parsed(Claim, where, content, id=name, paper=paper, measure=None)
        if bool(claim.test) == bool(claim.not_tested):
            raise RelposError(f"{where}: needs test, or not_tested: why, and what would test it")
        for measure in claim.variants:
            refuse_unknown(f"{where}: variants: unknown measure", measure, MEASURES)
        claims += claim.with_variants()
    return claims


def _parsed(shape: type[Any], where: str, content: Mapping[str, Any], **given: str | None) -> Any:
    """The dataclass of a file's keys and of the fields that no file may give."""
    keys = {key.name for key in fields(shape)} - given.keys()
    try:
        for key in content:
            refuse_unknown("unknown key", key, keys)
        return fitted({**content, **given}, shape)
    except RelposError as error:
        raise RelposError(f"{where}: {error}") from None


def families(claims: Sequence[Claim]) -> list[list[Claim]]:
    """All claims of each paper and measure of these: among them chance is corrected for."""
    # A family is complete, because a verdict must not depend on the other claims of the page.
    by_id = {claim.id: claim for claim in [*load("all"), *claims]}
    kinds: dict[tuple[str, str | None], list[Claim]] = {}
    for claim in by_id.values():
        kinds.setdefault((claim.paper, claim.measure), []).append(claim)
    return [kinds[kind] for kind in dict.fromkeys((claim.paper, claim.measure) for claim in claims)]


def rows() -> dict[str, list[str]]:
    """Row → its overrides."""
    return _read("rows", dict[str, list[str]])


def scales() -> Scales:
    """All finished runs below `$RELPOS_RUNS`, by which claims are judged."""
    of_runs = values.read()
    runs = scale.scales(of_runs, rows(), pilot_seeds(experiments()))
    return replace(runs, tuned=tuned.tuned_checkpoints(of_runs))


def _folder() -> Path:
    return shipped("experiments") / "claims"


def _read(name: str, shape: Any) -> Any:
    return fitted(read_yaml(_folder() / f"{name}.yaml"), shape)

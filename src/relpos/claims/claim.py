"""The claims as data: `experiments/claims/PAPER.yaml` has id → the claim, its place in the paper, the printed figures, its test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from relpos.claims.finding import Test
from relpos.config.conf import shipped
from relpos.errors import RelposError, nearest
from relpos.files import read_yaml
from relpos.trust import instantiate

if TYPE_CHECKING:
    from relpos.tables.experiment import Experiment

ROWS = "rows"
"""The file that says which overrides make a row; every other file is a paper."""
KEYS = ("says", "source", "printed", "restated", "test", "twins", "hosts")
MEASURES = {"loss": "held-out loss", "order": "shuffle gap over all words"}
"""The measures in which twins compare rows."""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, or a twin of one: the same comparison of rows in another measure than the paper's.

    Args:
        id: C01 … of Chang et al. 2021, W01 … of Wennberg & Henter 2021, X01 … across them; C01/loss and C01/order are twins.
        says: the claim, in our words.
        source: table, figure or section.
        printed: the paper's figures; on test sets unless they say dev.
        restated: how the test differs from the paper's words, and why, if these could not be decided even if they are true.
        test: the class that tests it (`_target_`) and its arguments.
        twins: measure → bound in nats; for each of these measures a claim that compares rows has a twin.
        hosts: whether fine-tunings of networks named by their folders test it: `too`, `only`, or not (empty).
        measure: a twin's, `loss` (held-out loss) or `order` (shuffle gap over all words); None: the claim itself.
    """

    id: str
    says: str
    source: str
    printed: str
    test: Mapping[str, Any]
    twins: Mapping[str, float] = field(default_factory=dict)
    measure: str | None = None
    restated: str = ""
    hosts: str = ""

    @cached_property
    def tester(self) -> Test:
        """The test.

        Raises:
            RelposError: there is no such class, it does not take these arguments, or it has no twins and this is one.
        """
        try:
            test: Test = instantiate(self.test, "test")
        except Exception as error:
            raise RelposError(f"claim {self.id}: test: {str(error).splitlines()[0]}") from error
        if self.measure is None:
            return test
        twin = getattr(test, "twin", None)
        if twin is None:
            raise RelposError(f"claim {self.id}: twins: {type(test).__name__} does not compare rows")
        return cast(Test, twin(self.measure, self.twins[self.measure]))

    def with_twins(self) -> list[Claim]:
        """The claim, then its twins."""
        return [self, *(self._twin(measure) for measure in self.twins)]

    def _twin(self, measure: str) -> Claim:
        says = f"{MEASURES[measure]} of these rows: {self.says}"
        return replace(self, id=f"{self.id}/{measure}", says=says, printed="", restated="", hosts="", measure=measure)


def papers() -> list[str]:
    """The names of the papers that have a file of claims."""
    return sorted(path.stem for path in _folder().glob("*.yaml") if path.stem != ROWS)


def load(paper: str) -> list[Claim]:
    """The claims of a paper, or of `all`, each followed by its twins.

    Raises:
        RelposError: there is no such paper, or a key is wrong.
    """
    if paper == "all":
        return sorted((claim for name in papers() for claim in load(name)), key=lambda claim: claim.id)
    if paper not in papers():
        raise RelposError(f"paper={paper}: unknown.{nearest(paper, [*papers(), 'all'])}")
    claims: list[Claim] = []
    for name, content in _read(_folder() / f"{paper}.yaml").items():
        for key in content:
            if key not in KEYS:
                raise RelposError(f"claim {name}: unknown key {key!r}.{nearest(str(key), KEYS)}")
        for measure in content.get("twins", {}):
            if measure not in MEASURES:
                raise RelposError(f"claim {name}: twins: unknown measure {measure!r}.{nearest(str(measure), MEASURES)}")
        texts = {key: str(content.get(key, "")) for key in ("says", "source", "printed", "restated", "hosts")}
        claims += Claim(str(name), **texts, test=content["test"], twins=content.get("twins", {})).with_twins()
    return claims


def rows() -> dict[str, list[str]]:
    """Row → the overrides that make it."""
    return {str(name): [str(override) for override in overrides] for name, overrides in _read(_folder() / f"{ROWS}.yaml").items()}


def experiments() -> list[Experiment]:
    """The experiment files that ship with the package."""
    from relpos.tables.experiment import load as load_experiment

    return [load_experiment(path.stem) for path in sorted(shipped("experiments").glob("[!_]*.yaml"))]


def tables_of(files: Iterable[Experiment]) -> dict[str, list[str]]:
    """Claim → names of the experiment files that are about it."""
    tables: dict[str, list[str]] = {}
    for experiment in files:
        for claim in experiment.claims:
            tables.setdefault(claim, []).append(experiment.name)
    return tables


def _folder() -> Path:
    return shipped("experiments") / "claims"


def _read(path: Path) -> dict[str, Any]:
    return dict(read_yaml(path))

"""The claims as data: `experiments/claims/PAPER.yaml`, id → what is said, where, what is printed, how it is tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from relpos.claims.finding import Test
from relpos.errors import RelposError, nearest
from relpos.runs.config import instantiate, shipped

ROWS = "rows"
"""The file that says which words make a row; the other files are papers."""


@dataclass(frozen=True)
class Claim:
    """A claim.

    Args:
        id: C01 … of Chang et al. 2021, W01 … of Wennberg & Henter 2021, X01 … across them.
        says: the claim, in our words.
        source: table, figure or section.
        printed: the paper's figures; test sets unless they say dev.
        test: the class that tests it (`_target_`) and its arguments.
    """

    id: str
    says: str
    source: str
    printed: str
    test: Mapping[str, Any]

    @cached_property
    def tester(self) -> Test:
        """The test.

        Raises:
            RelposError: there is no such class, or not with these arguments.
        """
        try:
            found: Test = instantiate(dict(self.test))
        except Exception as error:
            raise RelposError(f"claim {self.id}: test: {str(error).splitlines()[0]}") from error
        return found


def papers() -> list[str]:
    """The files there are."""
    return sorted(path.stem for path in _folder().glob("*.yaml") if path.stem != ROWS)


def load(paper: str) -> list[Claim]:
    """The claims of a paper, or of `all`.

    Raises:
        RelposError: there is no such paper, or a key is wrong.
    """
    if paper == "all":
        return sorted((claim for one in papers() for claim in load(one)), key=lambda claim: claim.id)
    if paper not in papers():
        raise RelposError(f"paper={paper}: unknown.{nearest(paper, [*papers(), 'all'])}")
    known = {key.name for key in fields(Claim)} - {"id"}
    found = []
    for name, content in _read(_folder() / f"{paper}.yaml").items():
        for key in content:
            if key not in known:
                raise RelposError(f"claim {name}: unknown key {key!r}.{nearest(str(key), known)}")
        found.append(Claim(str(name), **{key: content.get(key, "") for key in known}))
    return found


def rows() -> dict[str, list[str]]:
    """Row → the words that make it."""
    return {str(name): [str(word) for word in words] for name, words in _read(_folder() / f"{ROWS}.yaml").items()}


def tables_of() -> dict[str, list[str]]:
    """Claim → the experiment files that are about it."""
    from relpos.tables.experiment import load as load_experiment

    found: dict[str, list[str]] = {}
    for path in sorted(shipped("experiments").glob("[!_]*.yaml")):
        for claim in load_experiment(path.stem).claims:
            found.setdefault(claim, []).append(path.stem)
    return found


def _folder() -> Path:
    return shipped("experiments") / "claims"


def _read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))

"""docs/claims.md says what the committed records say."""

import re
from pathlib import Path

import claims_page
import pytest

from relpos.claims.claim import load


@pytest.mark.full
def test_the_page_of_claims_is_not_stale(tmp_path: Path, python: str) -> None:
    page = claims_page.PAGE.read_text(encoding="utf-8")
    assert page == claims_page.page(claims_page.verdicts(tmp_path)), "make claims"


def test_every_claim_is_on_the_page_with_its_rule() -> None:
    page = claims_page.PAGE.read_text(encoding="utf-8")
    for claim in load("all"):
        if not claim.measure:
            assert f"### {claim.id}\n" in page, "make claims"
            assert f"Rule: {claim.tester.says}." in page, "make claims"


def test_a_verdict_stands_with_its_scale_and_measure() -> None:
    text = claims_page.PAGE.read_text(encoding="utf-8")
    bullets = [line for line in text.splitlines() if line.startswith("- **")]
    assert len(bullets) > 20
    assert all("** in " in line and line.endswith(":") for line in bullets)


def test_each_claim_has_a_line_without_codes() -> None:
    lines = [line for line in claims_page.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| [")]
    assert len(lines) == len({claim.id.partition("/")[0] for claim in load("all")}), "make claims"
    for line in lines:
        _, paper, ours = line.rsplit(" | ", 2)
        assert paper in (claims_page.NOT_RUN, "—") or paper.startswith("**"), line
        assert not re.search(r"\([0-9a-f]{6}\)|wsd|bf16|files|toy|=", paper + ours), line

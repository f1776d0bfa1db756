"""docs/claims.md says what the committed records say."""

import re

import claims_page
import pytest

from relpos.claims.claim import load


@pytest.mark.full
def test_the_page_is_what_the_committed_records_decide(tmp_path):
    page = claims_page.PAGE.read_text(encoding="utf-8")
    assert page == claims_page.page(claims_page.verdicts(tmp_path)), "make claims"


def test_every_claim_has_one_line_in_the_table_and_an_entry_with_its_judgement():
    page = claims_page.PAGE.read_text(encoding="utf-8")
    lines = dict(re.findall(r"^\| \[(\w+)\]\(#\w+\) \| .* \| (.*) \|$", page, re.M))
    claims = [claim for claim in load("all") if claim.measure is None]
    assert list(lines) == [claim.id for claim in claims]
    for claim in claims:
        assert f"\n### {claim.id}\n" in page, "make claims"
        sentence = f"Judged by: {claim.judgement.says}." if claim.judgement else claim.not_tested
        assert sentence in page, "make claims"
        assert (lines[claim.id] == "not tested") == (claim.judgement is None)


def test_the_page_begins_with_verdicts_and_is_short():
    lines = claims_page.PAGE.read_text(encoding="utf-8").splitlines()
    assert "**holds" in "\n".join(lines[:12])
    assert len(lines) <= 500

"""Evidence → verdicts: of several parts, among many tests, and over scales."""

from dataclasses import replace

from relpos.claims.verdict import (
    FAILS,
    HOLDS,
    NOT_HERE,
    NOT_RUN,
    UNDECIDED,
    Evidence,
    Verdict,
    adjusted,
    all_of,
    headline,
)


def test_a_claim_holds_by_its_weakest_part_and_fails_by_its_strongest():
    weak, strong, against = Evidence(0.04, 1.0), Evidence(0.001, 1.0), Evidence(1.0, 0.01)
    assert (all_of([weak, strong]).verdict, all_of([weak, strong]).p) == (HOLDS, 0.04)
    assert all_of([against, strong]).verdict == FAILS
    assert all_of([Evidence(1.0, 0.03), strong]).verdict == UNDECIDED  # 0.06 by Holm's correction


def verdict_with(p: float) -> Verdict:
    return Verdict(HOLDS if p < 0.05 else UNDECIDED, "a", "here", p)


def test_among_many_tests_a_small_p_value_is_not_enough():
    page = [*map(verdict_with, [0.04, 0.001, *[0.5] * 8])]
    exact = Verdict(HOLDS, "computed")
    assert [finding.verdict for finding in adjusted([*page[:2], exact])] == [HOLDS, HOLDS, HOLDS]
    corrected = adjusted([*page, exact])
    assert [finding.verdict for finding in corrected[:2]] == [UNDECIDED, HOLDS]
    assert (
        corrected[0].figures
        == "a; by itself it holds with p 0.04; p 0.2 among the 10 of the paper here leaves it "
        "undecided"
    )
    assert corrected[-1] == exact


def test_records_of_another_scale_change_no_verdict():
    page = [*map(verdict_with, [0.04, 0.001, 0.6])]
    merged = [
        *page,
        *(Verdict(UNDECIDED, "b", "there", p) for p in (0.5,) * 50),
        *(Verdict(HOLDS, "c", "there", 1e-9),) * 50,
    ]
    assert adjusted(merged)[:3] == adjusted(page)


def test_the_largest_scale_that_was_run_is_the_headline():
    of = {verdict: Verdict(verdict, "") for verdict in (HOLDS, FAILS, UNDECIDED, NOT_HERE, NOT_RUN)}
    assert headline([of[HOLDS], of[FAILS], of[UNDECIDED], of[NOT_RUN]]) == of[UNDECIDED]
    assert headline([of[HOLDS], of[FAILS], of[NOT_RUN]]) == of[FAILS]
    assert headline([of[NOT_HERE], of[NOT_RUN]]) == of[NOT_HERE]
    # of another protocol than the paper's
    assert headline([of[UNDECIDED], replace(of[HOLDS], is_aside=True)]) == of[UNDECIDED]
    assert headline([of[NOT_RUN]]) == headline([]) == of[NOT_RUN]

"""Scores held against published ones; W12."""

from claims.made_up import around, scored
from claims.test_tuned_checkpoints import verdict
from relpos.claims.columns import above_published
from relpos.results.scale import Scale, Scales, tuned_checkpoint

COLUMNS = {"mnli_m": 84.6, "sst2": 92.9}


def fine_tuned(host: str = "albert/albert-base-v2", **columns: list[float]) -> Scale:
    """Fine-tunings with TISA (S = 5) beside the embeddings, column → a score of each seed."""
    made = tuned_checkpoint(host, ("regression", False))
    made.values["absolute_tisa"] = {
        name: scored({(seed, 0): value for seed, value in enumerate(values)}, name) for name, values in columns.items()
    }
    return made


def w12(made: Scale) -> tuple[str, list[str]]:
    return verdict("W12", Scales([], tuned=[made]))


def test_scores_clearly_above_what_is_published_hold_and_the_share_of_errors_is_shown() -> None:
    decided, [said] = w12(fine_tuned(mnli_m=around(86.14), sst2=around(93.61)))
    assert decided == "holds"
    assert "mnli_m 86.1 [85.8, 86.5] against 84.6, 10.0 % fewer errors, 5 fine-tunings" in said
    assert "sst2 93.6" in said


def test_one_column_clearly_below_fails() -> None:
    decided, [said] = w12(fine_tuned(mnli_m=around(86.0), sst2=around(92.0)))
    assert decided == "fails"
    assert "12.7 % more errors" in said


def test_scores_within_the_spread_of_the_fine_tunings_are_undecided_and_what_it_takes_is_said() -> None:
    [finding] = above_published(row="absolute_tisa", checkpoint="albert-base-v2", scores=COLUMNS).verdicts(
        Scales([fine_tuned(mnli_m=around(84.7), sst2=around(93.1))])
    )
    assert finding.verdict == "undecided"
    assert finding.takes.endswith("fine-tuning seeds of each row")


def test_one_fine_tuning_alone_decides_nothing() -> None:
    decided, [said] = w12(fine_tuned(mnli_m=[90.0], sst2=[95.0]))
    assert (decided, "[" in said) == ("undecided", False)


def test_another_network_is_not_held_against_the_scores_of_this_one() -> None:
    assert w12(fine_tuned("all-MiniLM-L6-v2", mnli_m=around(86.0), sst2=around(94.0))) == ("not run", [])


def test_without_one_of_the_tasks_it_is_not_run() -> None:
    decided, [said] = w12(fine_tuned(sst2=around(94.0)))
    assert decided == "not run"
    assert "no scores of absolute_tisa in mnli_m" in said

"""`make same` says what differs, and how; the command itself trains for minutes and is not run here."""

import math
from pathlib import Path

import pytest

import same
import same_results
from schemes import CONVS, POSITIONS

NUMBER = r"\d+(?:\.\d+)?"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([2.0, 1.0], [2.0, 1.0], ""),
        ([2.0, 1.0], [2.0, 1.5], "from step 2 on, by at most 0.5 nats"),
        ([2.0, 1.0], [2.0, math.nan], "from step 2 on, by at most inf nats"),
        ([2.0], "RelposError: no", "[2.0] → RelposError: no"),
    ],
)
def test_a_difference_is_told_with_its_step_and_size(before: list[float], after: list[float] | str, said: str) -> None:
    assert same.difference(before, after) == said


def test_every_preset_that_needs_nothing_more_is_compared() -> None:
    names = same.presets(Path(same.ROOT))
    assert {f"position={name}" for name in POSITIONS} | {f"conv={name}" for name in CONVS} == set(names)


@pytest.mark.full
def test_losses_are_those_that_the_run_logs(toy_runs: Path) -> None:
    losses = same.losses(["position=fixed", "position=nonsense"])
    assert [len(losses["position=fixed"]), len(losses["finetune"])] == [5, 5]
    assert "nonsense" in losses["position=nonsense"]


def test_a_verdict_that_changes_is_named_and_a_sentence_is_not() -> None:
    before = "C01  holds  fixed beats absolute\n     holds     4×128: fixed − absolute +0.9 nats"
    better = "C01  holds  fixed is better\n     holds     4×128: +0.9 nats more"
    other = before.replace("+0.9", "+0.8")
    assert not list(same_results.differences({"claims": before}, {"claims": better}))
    assert list(same_results.differences({"claims": before}, {"claims": other})) == [
        "claims:",
        "--- before",
        "+++ after",
        "-C01: holds 4 128 +0.9",
        "+C01: holds 4 128 +0.8",
    ]

"""`make same` says what differs, and how; the command itself trains for minutes and is not run here."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import same
from schemes import CONVS, POSITIONS


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


def test_losses_are_those_that_the_run_logs(toy_runs: Path) -> None:
    losses = same.losses(["position=fixed", "position=nonsense"])
    assert [len(losses["position=fixed"]), len(losses["finetune"])] == [5, 5]
    assert "nonsense" in losses["position=nonsense"]

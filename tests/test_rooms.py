"""The time of the tests by room."""

from pathlib import Path

import pytest

from rooms import budget, report, room_of

TESTS = Path(__file__).parent


@pytest.mark.parametrize("full", [False, True])
def test_every_room_has_a_budget_and_all_budgets_are_the_whole(full: bool) -> None:
    rooms = {room_of(path.relative_to(TESTS.parent).as_posix()) for path in TESTS.rglob("test_*.py")}
    assert budget(full).keys() == rooms
    assert sum(budget(full).values()) == 100


def test_the_slowest_rooms_are_told_and_those_over_their_budget() -> None:
    times = [("tests/runs/test_a.py::test_x", 6.0), ("tests/runs/test_a.py::test_x", 1.0), ("tests/test_b.py::test_y[1]", 3.0)]
    assert report(times, {"runs": 40, ".": 60}) == [
        "runs       70.0 % of 10 s, budget 40 %: over it",
        ".          30.0 % of 10 s, budget 60 %",
    ]
    assert (
        report([("tests/slurm/test_a.py::test_x", 0.001), *times], {"runs": 40, ".": 60, "slurm": 0})[2]
        == "slurm       0.0 % of 10 s, budget 0 %"
    )
    many = [(f"tests/room{number}/test_a.py::test_x", 1.0) for number in range(20)]
    assert len(report(many, {f"room{number}": 5 for number in range(20)})) == 8
    assert any(line.startswith("room19 ") and line.endswith("over it") for line in report(many, {f"room{n}": 5 for n in range(19)}))

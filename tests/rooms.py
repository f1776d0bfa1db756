"""How the time of the tests divides among the rooms of `tests/`, beside the budget in rooms.toml.

The share of a room depends little on the machine and on what else it does: a slow one is slow for all.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BUDGET = Path(__file__).with_name("rooms.toml")
WHOLE = 3_000
"""Tests; of fewer the shares say nothing."""
OVER = 1.5
"""A room is over its budget from so many times its share on, for machines on which some tests are skipped."""
FULL = "full"
"""The table of the budgets with RELPOS_FULL=1."""
SLOWEST = 8


def room_of(test: str) -> str:
    """`tests/model/position/test_fox.py::test_a` → `model`; of a file beside the rooms `.`."""
    parts = test.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 else "."


def report(times: Iterable[tuple[str, float]], budget: Mapping[str, float]) -> list[str]:
    """A line for each of the slowest rooms, and for each that is over its budget.

    Args:
        times: tests with their seconds, several times where they have a setup.
        budget: room → per cent of all seconds.
    """
    spent: dict[str, float] = {}
    for test, seconds in times:
        spent[room_of(test)] = spent.get(room_of(test), 0.0) + seconds
    whole = sum(spent.values()) or 1.0
    lines = []
    for place, room in enumerate(sorted(spent, key=lambda room: -spent[room])):
        share, allowed = 100 * spent[room] / whole, budget.get(room, 0.0)
        is_over = round(share, 1) > OVER * allowed
        if place < SLOWEST or is_over:
            lines.append(f"{room:<10} {share:4.1f} % of {whole:,.0f} s, budget {allowed:g} %{': over it' if is_over else ''}")
    return lines


def budget(full: bool) -> dict[str, float]:
    """Room → per cent of the time of all tests, or of those that `make test` runs."""
    here: dict[str, Any] = tomllib.loads(BUDGET.read_text(encoding="utf-8"))
    return here | here.pop(FULL) if full else {room: share for room, share in here.items() if room != FULL}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [each for of_kind in terminalreporter.stats.values() for each in of_kind if hasattr(each, "duration")]
    if len({each.nodeid for each in reports}) >= WHOLE:
        terminalreporter.section("time by room, tests/rooms.toml")
        budgets = budget(bool(os.environ.get("RELPOS_FULL")))
        for line in report([(each.nodeid, each.duration) for each in reports], budgets):
            terminalreporter.write_line(line)

"""What the benchmarks over all presets do with times; the times themselves are no test."""

from typing import Any

import _presets as presets
import pytest

from schemes import CONVS, POSITIONS


def test_all_presets_are_raced() -> None:
    wanted = {f"position={name}" for name in POSITIONS} | {f"conv={name}" for name in CONVS}
    assert {name.split()[0] for name in presets.presets()} == wanted - {"position=none", "conv=none"}


def test_ratios_are_those_of_a_turn_and_solving_is_shared_out() -> None:
    seconds = {
        "position=none": [1.0, 2.0, 4.0],
        "position=tisa": [1.5, 3.0, 8.0],
        "position=floater": [1.0, 2.0, 4.0],
        "position=floater position.refresh=1": [5.0, 10.0, 20.0],
    }
    raced: list[list[str]] = []

    def race(runs: dict[str, Any], repeats: int) -> dict[str, list[float]]:
        raced.append(list(runs))
        return {name: seconds[name] for name in runs}

    rows = presets.race_presets(lambda name: lambda: None, race, list(seconds)[1:], 3, together=2)
    assert raced == [["position=none", *list(seconds)[1:3]], ["position=none", list(seconds)[3]]]
    assert (rows["position=tisa"]["time"], rows["position=tisa"]["max"]) == (1.5, 2.0)
    assert rows["position=floater"]["ordinary"] == 1.0
    assert rows["position=floater"]["time"] == pytest.approx(1 + 4 / 400)

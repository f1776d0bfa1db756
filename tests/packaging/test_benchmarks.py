"""What the benchmarks over all presets do with times; the times themselves are no test."""

import json
from pathlib import Path
from typing import Any

import _contestants as contestants
import _presets as presets
import padding
import pytest
from torch import tensor

from relpos.data.store import Store
from schemes import CONVS, POSITIONS


def test_all_presets_are_raced() -> None:
    wanted = {f"position={name}" for name in POSITIONS} | {f"conv={name}" for name in CONVS}
    assert {name.split()[0] for name in presets.presets()} == wanted - {"position=none", "conv=none"}


def test_overrides_make_the_network_that_they_name() -> None:
    for overrides, scheme in (
        (["tisa"], "Tisa"),
        (["none"], "NoPosition"),
        (["position=floater", "position.refresh=1"], "Floater"),
        (["conv=qk"], "NoPosition"),
    ):
        made = contestants.network(*overrides, "size=tiny", "vocabulary=30")
        assert type(made.encoder.position).__name__ == scheme
    assert type(made.encoder.layers[0].attention.conv).__name__ == "ConvQK"


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


def test_results_of_other_presets_are_kept_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "RESULTS", tmp_path)
    row = {"time": 1.0, "min": 0.9, "max": 1.1, "seconds": 0.5, "memory": 1.0, "megabytes": 10.0}
    result = {"machine": {"threads": 1}, "repeats": 3, "presets": {"position=tisa": row}}
    presets.write("some", "Title", result, keep=True)
    assert list(tmp_path.iterdir()) == []
    presets.write("some", "Title", result, keep=False)
    presets.write("some", "Title", result | {"presets": {"position=rope": row}}, keep=True)
    presets.write("some", "Title", result | {"repeats": 5, "presets": {"position=alibi": row}}, keep=True)  # of other settings
    assert set(json.loads((tmp_path / "some.json").read_text())["presets"]) == {"position=tisa", "position=rope"}
    assert "| `position=tisa` | 1.000 | 0.90 – 1.10 | 0.5000 | 1.00 | 10 |" in (tmp_path / "some.md").read_text()


def test_figures_of_padding_are_shares(store: Store) -> None:
    figures = [float(figure) for figure in padding.row(store, "pair").split(" | ")]
    assert len(figures) == len(padding.COLUMNS)
    _, to_length, positions, *shares = figures
    assert all(0 <= share < 1 for share in (to_length, positions, *shares))
    assert positions < to_length  # batches of similar length have less
    short, long = padding.in_tiles(tensor([3, 64, 65]), 128), padding.in_tiles(tensor([128, 128, 128]), 128)
    assert (short, long) == (64**2 + 64**2 + 128**2, 3 * 128**2)

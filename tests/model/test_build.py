from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from relpos.model.build import build, count
from relpos.model.position import Absolute, Composite, CompositeKey, Dynamic, Fixed, NoPosition

ROOT = Path(__file__).parents[2]
COUNTS = ROOT / "experiments" / "printed" / "parameter_counts.csv"
ROWS: dict[str, Any] = {
    "No convolution": NoPosition,
    "No convolution + abs position (default)": Absolute,
    "Fixed lightweight (Eq 4)": Fixed,
    "Dynamic lightweight (Eq 5)": Dynamic,
    "Composite (Eq 6)": Composite,
    "Composite + key-based dynamic": CompositeKey,
}


def printed() -> list[tuple[str, str, int]]:
    with COUNTS.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["row"] in ROWS]
    return [(row["size"], row["row"], int(row["exact_total"])) for row in rows]


def size(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / "conf" / "size" / f"{name}.yaml").read_text(encoding="utf-8"))


def test_all_rows_are_found() -> None:
    assert len(printed()) == 10


@pytest.mark.parametrize(("name", "row", "total"), printed())
def test_count_equals_the_paper(name: str, row: str, total: int) -> None:
    with torch.device("meta"):
        assert count(build(size(name), ROWS[row], 30_004))["total"] == total


def test_parts_add_up() -> None:
    with torch.device("meta"):
        parameters = count(build(size("small"), Composite, 30_004))
    assert parameters["position"] == parameters["parts"]["position"] == 13_872
    assert sum(parameters["parts"].values()) == parameters["total"] == 13_428_196


def test_meta_and_cpu_have_the_same_parameters() -> None:
    with torch.device("meta"):
        meta = count(build(size("tiny"), Composite, 99))
    assert meta == count(build(size("tiny"), Composite, 99))

"""The papers' numbers, copied as data: as transcribed, and each in the row and column of its
experiment."""

import csv
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from relpos.config.conf import shipped
from relpos.results.values import GLUE
from relpos.tables.experiment import load, printed_numbers

PRINTED = shipped("experiments") / "printed"
CHECKSUMS = {
    "chang2021_table1": "543eeb4f5991da8a",
    "chang2021_table2": "30ef617632c76b9e",
    "chang2021_table3": "872def21fe6c61f6",
    "chang2021_table6": "f9e900d8a73c5176",
    "chang2021_table7": "f7f61f048cb38805",
    "wennberg2021_table3a": "46132f50ac6401eb",
    "wennberg2021_table3b": "92a9175571b1bdb6",
}
TABLES = sorted(CHECKSUMS)


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("table", TABLES)
def test_the_printed_numbers_are_as_transcribed(table):
    assert (
        hashlib.sha256((PRINTED / f"{table}.csv").read_bytes()).hexdigest()[:16] == CHECKSUMS[table]
    )


@pytest.mark.parametrize("table", TABLES)
def test_every_row_is_a_row_of_the_experiment(table):
    printed = printed_numbers(load(table))
    extra = set(printed) - set(load(table).rows)
    assert extra == ({"delta", "delta_percent"} if table.startswith("wennberg") else set())
    assert set(load(table).rows) <= set(printed)


def columns() -> Iterator[tuple[str, str, dict[str, float]]]:
    for table in TABLES:
        for row, numbers in printed_numbers(load(table)).items():
            yield table, row, numbers


def test_glue_is_the_mean_of_nine_but_for_three_rows_of_table_6():
    exceptions = {
        (table, row)
        for table, row, numbers in columns()
        if set(GLUE) <= set(numbers)
        and abs(sum(numbers[name] for name in GLUE) / 9 - numbers["glue"]) > 0.1
    }
    assert exceptions == {
        ("chang2021_table6", f"base_{name}") for name in ("absolute", "fixed", "dynamic")
    }


def test_standard_errors_stand_beside_the_means():
    numbers = printed_numbers(load("chang2021_table6"))["small_none"]
    assert (numbers["cola"], numbers["cola_sem"], numbers["glue"], numbers["glue_sem"]) == (
        7.0,
        2.4,
        69.3,
        0.3,
    )


def test_delta_of_wennberg_is_the_best_of_s_minus_the_baseline():
    for table in ("wennberg2021_table3a", "wennberg2021_table3b"):
        printed = printed_numbers(load(table))
        for task, delta in printed["delta"].items():
            best = max(printed[row][task] for row in ("s1", "s3", "s5"))
            assert delta == pytest.approx(best - printed["baseline"][task])

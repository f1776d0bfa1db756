"""The shipped tables: planned without data, their shared rows the same runs."""

from pathlib import Path

import pytest

from relpos.commands.reproduce import show_plan
from relpos.config.compose import composed, resolved
from relpos.config.conf import shipped
from relpos.tables.experiment import Experiment, load, overrides_of
from relpos.tables.plan import PlannedRow, plan_table, runs_of
from schemes import CONVS, FULL, POSITIONS

AUTHORS_SEEDS = [42, 97, 834, 622, 329, 75, 213, 101, 123, 57]
NAMES = sorted(path.stem for path in shipped("experiments").glob("[!_]*.yaml"))
SHARED = {
    "schemes": ["composite", "tisa"],
    "kernel_width": ["k8"],
    "outside": ["composite_clamp"],
    "convbert_readings": ["key_absolute_9"],
    "tisa_scratch": ["tisa_s5"],
    "pretraining_seeds": ["composite"],
    "chang2021_table7": ["convbert"],
}
"""Rows that a test below names."""
TABLES = [
    "chang2021_table1",
    "chang2021_table2",
    "chang2021_table3",
    "chang2021_table6",
    "chang2021_table7",
]
OWN = [
    "tisa_scratch",
    "schemes",
    "kernel_width",
    "outside",
    "convbert_readings",
    "conv_heads",
    "data_scarcity",
    "pretraining_seeds",
]


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELPOS_DATA", str(tmp_path / "nothing"))


@pytest.fixture(scope="module")
def planned() -> dict[str, dict[str, PlannedRow]]:
    """Table 6 whole. Of the others a few rows, which take seconds less; all of them with
    RELPOS_FULL=1."""

    def rows(name: str) -> list[str] | None:
        every = list(load(name).rows)
        return (
            None
            if name == "chang2021_table6" or FULL
            else sorted({*every[:2], every[-1], *SHARED.get(name, [])})
        )

    return {
        name: {row.name: row for row in plan_table(load(name), rows(name))}
        for name in (*TABLES, *OWN)
    }


def identities(row: PlannedRow) -> set[str]:
    return {run.identity for run in row.runs}


def test_every_table_of_both_papers_is_there():
    assert {
        *TABLES,
        "wennberg2021_table2",
        "wennberg2021_table3a",
        "wennberg2021_table3b",
        *OWN,
        "length",
        "two_stage",
    } <= set(NAMES)


@pytest.mark.parametrize("name", TABLES)
def test_the_papers_seeds(name):
    assert load(name).seeds == AUTHORS_SEEDS
    assert len(load("wennberg2021_table3a").seeds) == 5


def test_every_preset_has_a_row_in_some_table():
    shown = {
        override
        for table in map(load, NAMES)
        for row in table.rows.values()
        for override in (*table.base, *row)
    }
    presets = {*(f"position={name}" for name in POSITIONS), *(f"conv={name}" for name in CONVS)}
    assert presets - shown == {"conv=none"}  # which is the default


def test_rates_were_chosen_under_the_schedule_of_the_table():
    """order_curve's first pilot had the linear schedule and lay 0.19 nats above the next one, which
    had the table's schedule."""

    def schedules(experiment: Experiment) -> set[str]:
        configs = [
            resolved(composed("pretrain", overrides_of("pretrain", experiment, row)))
            for row in experiment.rows.values()
        ]
        return {config["recipe"]["schedule"] for config in configs}

    tuned = [load(name) for name in NAMES if load(name).tuned in NAMES]
    other = {
        table.name for table in tuned if not schedules(table) <= schedules(load(str(table.tuned)))
    }
    # Its modern rows have the rates of the others; modern_lr_2026_toy chose the network's alone.
    assert other == {"order_2026_toy_modern"}


def test_rows_that_tables_share_are_the_same_runs(planned):
    whole = planned["chang2021_table6"]
    for name in TABLES:
        for row in planned[name].values():
            other = whole[row.name if row.name in whole else f"small_{row.name}"]
            assert identities(row) == identities(other), (name, row.name)
    own = {"schemes": "composite", "kernel_width": "k8", "outside": "composite_clamp"}
    for name, row in own.items():
        assert identities(planned[name][row]) < identities(whole["small_composite"])
    assert identities(planned["convbert_readings"]["key_absolute_9"]) < identities(
        whole["small_convbert"]
    )
    # which has three pre-trainings
    assert identities(planned["schemes"]["tisa"]) < identities(planned["tisa_scratch"]["tisa_s5"])
    first = planned["pretraining_seeds"]["composite"].pretrainings[0]
    assert first.identity == whole["small_composite"].pretrainings[0].identity


def test_rows_of_a_table_are_different_models(planned):
    for name, rows in planned.items():
        trained = [run.identity for row in rows.values() for run in row.pretrainings]
        assert len(set(trained)) == len(trained), name


@pytest.mark.parametrize("name", ["wennberg2021_table3a", "wennberg2021_table3b", "tisa_minilm"])
def test_a_table_whose_checkpoint_is_not_at_hand_says_so(name, capsys):
    table = load(name)
    rows = plan_table(table)
    assert [row.runs for row in rows] == [[]] * len(table.rows)
    show_plan(table, rows, runs_of(rows))
    output = capsys.readouterr().out
    assert "the checkpoint to start from is not at hand" in output
    assert (
        f"{len(table.rows)} rows × {len(table.tasks)} tasks × {len(table.seeds)} fine-tuning seeds"
        in output
    )

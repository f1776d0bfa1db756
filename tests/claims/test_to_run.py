"""What it would take to test a claim of which there are no runs."""

from pathlib import Path

import pytest

from relpos.claims import claim as files
from relpos.claims.claim import Claim
from relpos.claims.to_run import ToRun
from relpos.commands.claims import page
from relpos.results.scale import Scales
from relpos.tables.experiment import experiments, load


@pytest.fixture(scope="module")
def claims() -> dict[str, Claim]:
    return {claim.id: claim for claim in files.load("all")}


@pytest.fixture(scope="module")
def to_run() -> ToRun:
    """With the shipped experiment files."""
    return ToRun(files.rows(), experiments())


def table_of(claim: Claim, to_run: ToRun) -> str:
    return to_run.says(claim).partition("table=")[2].partition(" ")[0]


def test_every_claim_that_runs_can_decide_says_a_command_as_do_its_variants(claims: dict[str, Claim], to_run: ToRun) -> None:
    silent = {name for name, claim in claims.items() if not to_run.says(claim)}
    no_runs = {"C11", "C22", "C23", "C24", "W04", "W17", "W22", "X01", "C25"}  # the last says itself what it needs
    in_nats = {"X03", "X04", "X05", "X06", "X07", "X08", "X09"}  # decided in loss and gap: no table fine-tunes their rows
    assert silent == no_runs | in_nats


@pytest.mark.parametrize(
    ("name", "table"),
    {
        "C05": "chang2021_table1",  # a bound in nine columns of GLUE: chang2021_mini has two, chang2021_toy none
        "C01/loss": "chang2021_toy",  # no dev scores of GLUE there
        "C05/order": "order_real",  # measures the gap by itself
        "W08": "tisa_minilm",  # four tasks of a given network
        "W09": "wennberg2021_table3a",  # a bound in eight columns
        "W08/loss": "tisa_scratch",  # fine-tunings have no loss of text
        "W12": "wennberg2021_table3a",
    }.items(),
)
def test_a_claim_takes_the_cheapest_experiment_that_has_its_rows_and_columns(
    name: str, table: str, claims: dict[str, Claim], to_run: ToRun
) -> None:
    assert table_of(claims[name], to_run) == table


@pytest.mark.parametrize(
    ("name", "command"),
    {
        "C10/loss": "table=data_scarcity stages=[pretrain] pretrain_seeds=2",
        "W14": "table=tisa_minilm 'rows=[kept,removed_s5]' network=FOLDER data=files data.root=FOLDER",
        # Of rows that differ in their rates alone the one that claims are read from.
        "C19/loss": "table=chang2021_toy 'rows=[composite,composite_qk,composite_value,composite_qkv]'",
    }.items(),
)
def test_the_command_makes_the_rows_and_as_many_seeds_as_a_verdict_needs(
    name: str, command: str, claims: dict[str, Claim], to_run: ToRun
) -> None:
    assert to_run.says(claims[name]).startswith(f"relpos reproduce {command}")


def test_the_page_says_it_of_claims_that_are_not_run_and_of_no_others(claims: dict[str, Claim], to_run: ToRun) -> None:
    said = page([claims["C03"], claims["C11"]], Scales([]), to_run)["claims"]
    assert [bool(claim["takes"]) for claim in said] == [True, False]


def test_a_row_of_an_experiment_is_that_of_a_claim_whatever_overrides_say_what_is_so_by_default(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("question: '?'\nrows: {a: [position=composite, k=8, conv=none], b: [position=composite, k=4]}\ntasks: []\n")
    rows = {"composite": ["position=composite"], "absolute": ["position=absolute"]}
    file, finds = load(str(path)), ToRun(rows, [])
    assert {name: finds.row(file, overrides) for name, overrides in file.rows.items()} == {"a": "composite", "b": ""}

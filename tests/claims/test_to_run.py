"""What it would take to test a claim of which there are no runs."""

from pathlib import Path

import pytest

from relpos.claims import claim as files
from relpos.claims.claim import Claim
from relpos.claims.to_run import ToRun
from relpos.commands.claims import page
from relpos.results.scale import Scales
from relpos.tables.experiment import experiments, load

ASKED = [f"W{n:02}" for n in (1, 2, 3, *range(5, 11), 12, 14, 15, 16, *range(18, 22))]


@pytest.fixture(scope="module")
def claims() -> dict[str, Claim]:
    return {claim.id: claim for claim in files.load("all")}


@pytest.fixture(scope="module")
def to_run() -> ToRun:
    """With the shipped experiment files."""
    return ToRun(files.rows(), experiments())


@pytest.mark.parametrize("name", ASKED)
def test_the_claims_of_wennberg_say_the_experiment_the_command_and_the_seeds(
    name: str, claims: dict[str, Claim], to_run: ToRun
) -> None:
    said = to_run.says(claims[name])
    assert said.startswith("relpos reproduce table=")
    assert "seed" in said


def test_every_claim_that_runs_can_decide_says_what_it_takes_as_do_its_variants(claims: dict[str, Claim], to_run: ToRun) -> None:
    silent = {name for name, claim in claims.items() if not to_run.says(claim)}
    no_runs = {"C11", "C22", "C23", "C24", "W04", "W17", "W22", "X01"}
    in_nats = {"X03", "X04", "X05", "X06", "X07", "X08", "X09"}  # decided in loss and gap: no table fine-tunes their rows
    assert silent == no_runs | in_nats


def test_a_claim_takes_the_cheapest_experiment_that_has_what_its_rule_asks_for(claims: dict[str, Claim], to_run: ToRun) -> None:
    chosen = {name: plan.experiment.name for name, claim in claims.items() if (plan := to_run.plan(claim))}
    assert chosen["C05"] == "chang2021_table1"  # a bound in nine columns of GLUE: chang2021_mini has two, chang2021_toy none
    assert chosen["C01"] != chosen["C01/loss"] == "chang2021_toy"  # no dev scores of GLUE there
    assert chosen["C05/order"] == "order_real"  # measures the gap by itself
    assert chosen["W08"] == "tisa_minilm"  # four tasks of a given network
    assert chosen["W09"] == "wennberg2021_table3a"  # a bound in eight columns
    assert chosen["W08/loss"] == "tisa_scratch"  # fine-tunings have no loss of text
    assert chosen["W12"] == "wennberg2021_table3a"
    assert chosen["W03"] == "tisa_toy"  # five runs of one row


def test_the_command_makes_the_rows_and_as_many_seeds_as_a_verdict_needs(claims: dict[str, Claim], to_run: ToRun) -> None:
    plan = to_run.plan(claims["C10/loss"])
    assert plan is not None
    assert plan.command == "relpos reproduce table=data_scarcity stages=[pretrain] pretrain_seeds=2"
    assert plan.runs == "12×256: 10 rows × 2 pre-training seeds × 125,000 steps"
    plan = to_run.plan(claims["W19"])
    assert plan is not None
    assert plan.command == "relpos reproduce table=tisa_toy 'rows=[tisa,tisa_two]'"


def test_a_given_network_is_named_by_the_user_and_its_fine_tunings_count(claims: dict[str, Claim], to_run: ToRun) -> None:
    plan = to_run.plan(claims["W14"])
    assert plan is not None
    assert plan.command == (
        "relpos reproduce table=tisa_minilm 'rows=[kept,removed_s5]' network=FOLDER data=files data.root=FOLDER"
    )
    assert plan.runs == "2 rows × 4 tasks × 3 fine-tuning seeds"


def test_equal_training_of_two_sizes_is_asked_for_by_overrides(claims: dict[str, Claim], to_run: ToRun) -> None:
    plan = to_run.plan(claims["C08"])
    assert plan is not None
    assert "pretrain.steps=125000 pretrain.batch=128" in plan.command
    assert "12×256 and 12×768: 4 rows × 2 pre-training seeds × 125,000 steps" in plan.runs


def test_the_page_says_it_of_claims_that_are_not_run_and_of_no_others(claims: dict[str, Claim], to_run: ToRun) -> None:
    said = page([claims["C03"], claims["C11"]], Scales([]), files.rows(), {}, to_run)["claims"]
    assert [bool(claim["takes"]) for claim in said] == [True, False]


def test_a_row_of_an_experiment_is_that_of_a_claim_whatever_overrides_say_what_is_so_by_default(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("question: '?'\nrows: {a: [position=composite, k=8, conv=none], b: [position=composite, k=4]}\ntasks: []\n")
    rows = {"composite": ["position=composite"], "absolute": ["position=absolute"]}
    assert ToRun(rows, [load(str(file))]).rows_of == {"mine": {"a": "composite", "b": ""}}


def test_of_rows_that_differ_in_their_rates_alone_it_takes_the_one_that_claims_are_read_from(
    claims: dict[str, Claim], to_run: ToRun
) -> None:
    chosen = [plan.rows for name in ("C03/loss", "C19/loss") if (plan := to_run.plan(claims[name])) is not None]
    assert chosen == [["fixed", "dynamic"], ["composite", "composite_qk", "composite_value", "composite_qkv"]]

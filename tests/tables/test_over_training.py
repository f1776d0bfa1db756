"""Differences along the training, from snapshots that a table has measured; covers over_training,
`primary` and claims.txt."""

import json
from dataclasses import replace
from typing import Any

import pytest

from relpos.claims.claim import compared
from relpos.claims.claim import load as load_claims
from relpos.commands.claims import chosen, table_page
from relpos.commands.reproduce import show
from relpos.tables.changes import Changes
from relpos.tables.experiment import load
from relpos.tables.over_training import agreements, courses_of, draw
from relpos.tables.plan import plan_table
from tables.small_data import finish, write_data, write_experiment
from tables.snapshots import JITTER, rows

CLAIMS = compared(chosen(load_claims("all"), ["C03", "C13"]), "loss")


def test_a_claim_appears_where_its_interval_leaves_zero():
    courses = courses_of(rows(dynamic=(5.0, 3.0), fixed=(5.0, 3.5)), CLAIMS, "loss")
    ((id, (bound, differences)),) = courses.items()
    assert (id, bound) == ("C03/loss", 0.02)
    ((pair, tested),) = differences.items()
    assert pair == ("dynamic", "fixed")
    assert tested[10].low < 0 < tested[10].high
    # less loss is better
    assert (tested[100].value, tested[100].low > 0) == (pytest.approx(0.5), True)


def test_a_pair_without_snapshots_is_left_out():
    assert courses_of(rows(dynamic=(5.0, 3.0)), CLAIMS, "loss") == {}
    assert courses_of(rows(dynamic=(5.0, 3.0), fixed=(5.0, 3.5)), CLAIMS, "order") == {}


def test_the_order_of_rows_is_compared_with_the_last_one():
    same = rows(a=(5.0, 3.0), b=(5.1, 3.1), c=(5.2, 3.2), d=(5.3, 3.3), e=(5.4, 3.4))
    turned = rows(a=(5.0, 3.4), b=(5.1, 3.3), c=(5.2, 3.2), d=(5.3, 3.1), e=(5.4, 3.0))
    assert agreements(same, "loss")[10].rho == pytest.approx(1.0)
    found = agreements(turned, "loss")[10]
    assert (found.rho, found.rows) == (pytest.approx(-1.0), 5)
    assert found.interval[0] <= found.rho <= found.interval[1]
    assert agreements(same[:3], "loss") == {}  # too few rows
    twin = replace(
        same[0],
        name="a_10",
        overrides=["position=fixed", "recipe.position_lr=10"],
        position_lr=10.0,
    )
    assert (
        agreements([replace(same[0], overrides=["position=fixed"]), *same[1:], twin], "loss")[
            10
        ].rows
        == 5
    )


def test_the_figure_and_its_numbers(tmp_path):
    given = rows(dynamic=(5.0, 3.0), fixed=(5.0, 3.5), absolute=(5.1, 3.6), depthwise=(5.2, 3.7))
    draw(tmp_path, given, CLAIMS, "loss")
    assert (tmp_path / "claims_over_training.png").stat().st_size > 10_000
    numbers = json.loads((tmp_path / "claims_over_training.json").read_text(encoding="utf-8"))
    assert set(numbers["claims"]) == {"C03/loss", "C13/loss"}
    assert set(numbers["claims"]["C03/loss"]["dynamic − fixed"]) == {"10", "100"}
    assert set(numbers["ranks"]) == {"10"}
    draw(tmp_path / "none", rows(dynamic=(5.0, 3.0)), CLAIMS, "loss")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("primary", "order"),
    [("loss", ["C03/loss", "C03/order", "C03"]), ("order", ["C03/order", "C03/loss", "C03"])],
)
def test_the_primary_measure_comes_first(primary, order):
    assert [
        line.partition(" ")[0]
        for line in table_page(["C03"], primary).splitlines()
        if line[:1] == "C"
    ] == order


def test_a_table_that_names_its_primary_measure_has_its_claims_beside_it(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("RELPOS_DATA", str(write_data(tmp_path / "data")))
    content: dict[str, Any] = {
        "rows": {name: [f"position={name}"] for name in ("dynamic", "fixed")},
        "pretrain_seeds": [0, 1, 2],
    }
    given = load(
        str(write_experiment(tmp_path, tasks=[], claims=["C03"], primary="loss", **content))
    )
    plan = plan_table(given)
    for row in plan:
        for run, by in zip(row.pretrainings, JITTER, strict=True):
            loss = {"dynamic": 3.0 + by, "fixed": 3.5 - by}[row.name]
            finish(
                run,
                {
                    "heldout_loss": loss,
                    "perplexity": 20.0,
                    "parameters": 1000,
                    "position_parameters": 10,
                },
            )
    show(given, plan, tmp_path / "table", None, Changes())
    first = (tmp_path / "table" / "claims.txt").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("C03/loss  holds (2×16, 3 steps of 8, files (")
    assert first.endswith(")  held-out loss of these rows: dynamic beats fixed in GLUE, BERT-small")

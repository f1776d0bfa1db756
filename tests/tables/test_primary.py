"""`primary` of an experiment file, and claims.txt beside the table."""

from typing import Any

import pytest

from relpos.commands.claims import table_page
from relpos.commands.reproduce import show
from relpos.tables.changes import Changes
from relpos.tables.plan import plan_table
from tables.small_data import finish, small, write_data


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
    given = small(tmp_path, tasks=[], claims=["C03"], primary="loss", **content)
    plan = plan_table(given)
    for row in plan:
        for run, by in zip(row.pretrainings, (0.01, -0.01, 0.0), strict=True):
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

"""Our counts against the papers', to the last digit."""

import json
from typing import Any

import pytest

from linked import TINY
from relpos.commands.params import lines, papers
from relpos.config.compose import called, compose
from relpos.errors import RelposError
from relpos.runs.execute import execute
from relpos.runs.plan import plan


@pytest.fixture(scope="module")
def chang() -> list[dict[str, Any]]:
    return lines("chang2021")


def test_both_papers_are_there():
    assert papers() == ["chang2021", "wennberg2021"]


def test_chang_every_exact_total(chang):
    assert len(chang) == 19
    assert {line["row"] + line["overrides"]: line["ours"] for line in chang} == {
        line["row"] + line["overrides"]: line["exact"] for line in chang
    }


def test_chang_18_of_19_printed_figures_are_met(chang):
    missed = [(line["row"], line["difference"]) for line in chang if line["difference"]]
    assert missed == [("Convolutional QK", -0.01)]
    assert (
        next(line for line in chang if line["row"] == "Convolutional QK")["ours"] == 13_525_000 - 84
    )


def test_wennberg_table_2():
    rows = {line["row"]: line for line in lines("wennberg2021")}
    assert {row: line["ours"] for row, line in rows.items() if "Ke et al." not in row} == {
        "Longformer, standard": 3_145_728,
        "BERT and RoBERTa, standard": 393_216,
        "ALBERT, standard": 65_536,
        "Longformer, TISA, S = 5": 2_160,
        "BERT and RoBERTa, TISA, S = 5": 2_160,
        "ALBERT, TISA, S = 5": 2_160,
    }
    ours = rows["BERT and RoBERTa, Ke et al."]
    # biases, layer norm and a row more
    assert (ours["ours"], ours["difference"]) == (1_576_704, 1_576_704 - 1_572_864)


def test_an_unknown_paper_is_refused_with_the_nearest():
    with pytest.raises(
        RelposError,
        match=r"table=chang2012: no printed parameter counts\. Did you mean 'chang2021'",
    ):
        lines("chang2012")


@pytest.mark.parametrize(
    "override", ["rows=[nonsense]", "size.layers=3", "seeds=2", "tasks=[cola]", "stages=[order]"]
)
def test_a_table_of_counts_refuses_what_would_change_runs(override, refused):
    message = refused("reproduce", "table=wennberg2021_table2", override)
    assert "wennberg2021_table2 trains nothing" in message


def test_a_run_is_counted(toy_runs):
    run = execute(plan(compose("pretrain", TINY)))
    counts = json.loads(called("params", [f"network={run.path}"]))
    assert counts["total"] == run.metrics["parameters"]


def test_a_network_that_is_not_there_and_sizes_beside_a_network_on_disk_are_refused(
    tmp_path, refused
):
    network = f"network={tmp_path}"
    for sizes, message in (
        ([], f"{network}: no finished run and no model folder"),
        (["size=base"], f"size=base: the network comes from {network}, where"),
    ):
        assert refused("params", network, *sizes).startswith(f"relpos: {message}")

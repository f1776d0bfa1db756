"""The claims of both papers as data, and the command that prints them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from claims.made_up import glue, scale, scales
from relpos.claims import claim as files
from relpos.claims.network import nodes
from relpos.commands.claims import claims, evaluate
from relpos.errors import RelposError
from relpos.runs import compose
from relpos.tables.columns import GLUE

IDS = [*(f"C{n:02}" for n in range(1, 26)), *(f"W{n:02}" for n in range(1, 23)), "X01", "X02"]


def test_all_49_are_there() -> None:
    assert [claim.id for claim in files.load("all")] == IDS
    assert [claim.id[0] for paper in ("chang2021", "wennberg2021", "across") for claim in files.load(paper)] == [
        one[0] for one in IDS
    ]


@pytest.mark.parametrize("name", IDS)
def test_each_has_a_test_of_known_rows(name: str) -> None:
    claim = next(one for one in files.load("all") if one.id == name)
    assert claim.says
    assert claim.source
    assert claim.tester.says
    assert set(claim.tester.rows) <= set(files.rows())


def of_id(name: str) -> files.Claim:
    return next(one for one in files.load("all") if one.id == name)


@pytest.mark.parametrize(("name", "without"), [*[(f"W{n:02}", {"mnli_mm"}) for n in (8, 9, 10, 11)], ("W13", None), ("W16", None)])
def test_claims_about_wennbergs_tasks_ask_these_alone(name: str, without: set[str] | None) -> None:
    test = of_id(name).tester
    assert set(GLUE) - set(test.columns) == (without or {"mnli_mm", "cola"})  # type: ignore[attr-defined]
    assert getattr(test, "of", len(test.columns)) == len(test.columns)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "row", "expected"), [("C05", "composite_key", "holds"), ("C15", "composite_depthwise", "fails")])
def test_a_small_clear_gain(name: str, row: str, expected: str) -> None:
    (found,) = of_id(name).tester.findings(scales(scale({row: glue(60.25), "composite": glue(60.0)})))
    assert found.verdict == expected


def test_the_verdict_is_that_of_the_largest_scale_that_was_tested() -> None:
    steps = {"absolute_tisa_s1": glue(61.0), "absolute_tisa_s3": glue(63.0), "absolute_tisa": glue(65.0)}
    there = scales(
        scale(steps | {"absolute": glue(60.0, -1)}), scale({"absolute_tisa": glue(61.0), "absolute": glue(60.0)}, size=4)
    )
    found = evaluate(of_id("W11"), there, files.rows(), [])
    assert [one["verdict"] for one in found["findings"]] == ["fails", "not run"]
    assert found["verdict"] == "fails"
    assert evaluate(of_id("W14"), there, files.rows(), [])["verdict"] == "not run"
    assert evaluate(of_id("W11"), scales(), files.rows(), [])["verdict"] == "not run"


def test_rows_are_words_that_compose() -> None:
    rows = files.rows()
    composed = [compose("pretrain", words) for words in rows.values()]
    expected = [{key: OmegaConf.to_container(cfg[key], resolve=True) for key in ("position", "conv")} for cfg in composed]
    assert [nodes(words) for words in rows.values()] == expected
    assert len(set(map(str, expected))) == len(rows)  # no two are the same model


def test_tables_name_claims_that_exist() -> None:
    assert set(files.tables_of()) <= set(IDS)
    assert files.tables_of()["C20"] == ["conv_heads"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(claims(compose("claims", ["paper=chang2021", "ids=[C01,C11,C22]"])))
    said = capsys.readouterr().out
    assert "C01  not run  fixed, dynamic and composite each beat absolute positions" in said
    assert "composite: position=composite" in said
    assert "no finished runs of these rows at any scale" in said
    assert "3 claims: 2 holds, 1 not run" in said
    written = json.loads(path.read_text(encoding="utf-8"))["claims"]
    assert [one["verdict"] for one in written] == ["not run", "holds", "holds"]
    assert path.is_relative_to(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["paper=chang2012"], "paper=chang2012: unknown. Did you mean 'chang2021'"),
        (["ids=[C99]"], "ids: unknown claim 'C99'"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], message: str) -> None:
    with pytest.raises(RelposError) as caught:
        claims(compose("claims", words))
    assert message in str(caught.value)

"""The claims of both papers as data, and the command that prints them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from relpos.errors import RelposError
from relpos.runs import compose
from relpos.tables.claims import claims, files

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


def test_rows_are_words_that_compose() -> None:
    rows = files.rows()
    configs = (compose("pretrain", words) for words in rows.values())
    nodes = {str([OmegaConf.to_container(cfg[key], resolve=True) for key in ("position", "conv")]) for cfg in configs}
    assert len(nodes) == len(rows)  # no two are the same model


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

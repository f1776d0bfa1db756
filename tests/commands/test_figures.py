"""`relpos figures`."""

from __future__ import annotations

from pathlib import Path

import pytest

from relpos.cli import main


def test_what_cannot_be_drawn_is_listed_with_the_command_that_makes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "wennberg2021"]) == 0
    page = (Path(capsys.readouterr().out.strip()) / "README.md").read_text()
    assert page.count("missing") == 5
    assert "relpos pretrain position=tisa" in page


def test_an_unknown_paper_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "chang2022"]) == 1
    assert "chang2021" in capsys.readouterr().err

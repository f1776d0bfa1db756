"""Held-out losses by length that are kept in the folders of runs."""

from pathlib import Path

import pytest

from relpos.files import write_json
from relpos.measures.lengths import kept_losses, losses
from relpos.measures.sample import is_of_toy


def test_losses_that_earlier_code_kept_are_found_under_their_name(tmp_path: Path) -> None:
    write_json(tmp_path / "lengths-8e5d162b.json", {"8": 3.5, "16": None})
    assert losses(tmp_path, tmp_path / "no-store", [16, 8], "fp32") == {8: 3.5, 16: None}


def test_a_damaged_file_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lengths-0.json").write_text('{"8": 3', encoding="utf-8")
    write_json(tmp_path / "lengths-1.json", {"8": 3.5})
    assert kept_losses(tmp_path) == {8: 3.5}
    assert "damaged results" in capsys.readouterr().err


def test_a_damaged_file_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lengths-8e5d162b.json").write_text('{"8": 3', encoding="utf-8")
    monkeypatch.setattr("relpos.measures.lengths.scores_by_length", lambda *_: {8: {"loss": 3.5}, 16: {"refused": "no"}})
    assert losses(tmp_path, tmp_path / "no-store", [8, 16], "fp32") == {8: 3.5, 16: None}


@pytest.mark.parametrize("config", ["", "data: null", "data: 3", "[1]"])
def test_a_store_whose_configuration_is_damaged_is_of_no_known_text(config: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(config, encoding="utf-8")
    assert not is_of_toy(tmp_path)

"""Held-out losses by length that are kept in the folders of runs."""

from pathlib import Path

import pytest

from relpos.files import write_json
from relpos.measures.lengths import kept_losses, losses


def test_losses_that_earlier_code_kept_are_found_under_their_name(tmp_path: Path) -> None:
    write_json(tmp_path / "lengths-8e5d162b.json", {"8": 3.5, "16": None})
    assert losses(tmp_path, tmp_path / "no-store", [16, 8], "fp32") == {8: 3.5, 16: None}


def test_a_damaged_file_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lengths-0.json").write_text('{"8": 3', encoding="utf-8")
    write_json(tmp_path / "lengths-1.json", {"8": 3.5})
    assert kept_losses(tmp_path) == {8: 3.5}
    assert "damaged results" in capsys.readouterr().err

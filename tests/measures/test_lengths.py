"""Held-out losses by length that are kept in the folders of runs."""

import shutil
from pathlib import Path

import pytest

from linked import pretrained
from relpos.files import digest, write_json
from relpos.measures.kept import kept
from relpos.measures.kinds.lengths import kept_losses, losses
from relpos.measures.sample import is_of_toy


def test_losses_that_earlier_code_kept_are_found_under_their_name(tmp_path: Path) -> None:
    write_json(tmp_path / "lengths-8e5d162b.json", {"8": 3.5, "16": None})
    assert losses(tmp_path, [16, 8]) == {8: 3.5, 16: None}


def test_a_damaged_file_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lengths-0.json").write_text('{"8": 3', encoding="utf-8")
    write_json(tmp_path / "lengths-1.json", {"8": 3.5})
    assert kept_losses(tmp_path) == {8: 3.5}
    assert "damaged results" in capsys.readouterr().err


def test_what_is_measured_anew_is_kept_with_the_results_of_other_measures(prepared: Path, tmp_path: Path) -> None:
    [run] = pretrained(prepared, tmp_path, {"absolute": ["position=absolute", "packing=document"]}).values()
    (run / f"lengths-{digest([[8, 64], 100_000])}.json").write_text('{"8": 3', encoding="utf-8")
    found = losses(run, [64, 8])
    assert found[64] is None
    assert found[8] is not None
    (entry,) = kept(run, "lengths")
    assert entry.meaning["lengths"] == [8, 64]
    shutil.rmtree(run / "model")
    assert losses(run, [8, 64]) == kept_losses(run) == found


@pytest.mark.parametrize("config", ["", "data: null", "data: 3", "[1]"])
def test_a_store_whose_configuration_is_damaged_is_of_no_known_text(config: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(config, encoding="utf-8")
    assert not is_of_toy(tmp_path)

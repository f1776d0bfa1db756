"""What a run's folder says, when it is damaged or cannot be written."""

import sys
from pathlib import Path

import pytest

import relpos
from relpos.cli import main
from relpos.errors import RelposError
from relpos.files import write_json
from relpos.runs.run import read_record
from relpos.runs.shelf import run_folders


@pytest.mark.parametrize("content", [b"", b'{"state": "fin', b"[1]", b"\xff\xfe"])
def test_a_damaged_record_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(RelposError, match=r"damaged record .*record\.json: delete the folder to start anew"):
        read_record(tmp_path)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RelposError, match=r"cannot write .*record\.json \("):
        write_json(tmp_path / "file" / "run" / "record.json", {})


def test_a_run_of_a_worker_has_the_command_that_was_typed(tmp_path: Path) -> None:
    table = tmp_path / "t.yaml"
    table.write_text('{question: "?", rows: {a: [label=a]}, stages: {noop: [seconds=0]}, tasks: [], seeds: 1}', encoding="utf-8")
    assert main(["reproduce", f"table={table}", "engine=local", "workers=1"]) == 0
    [run] = run_folders("noop")
    assert read_record(run)["command"] == f"relpos reproduce table={table} engine=local workers=1"


def test_a_run_of_a_script_has_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mine.py", "two words"])
    run = relpos.run(relpos.compose("noop", ["seconds=0"]))
    assert run.record["command"] == "mine.py 'two words'"

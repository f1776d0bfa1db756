"""experiments/pack.py, which packs the records of finished runs to be committed."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.packaging.links import ROOT


def run(folder: Path, state: str) -> None:
    """A run's folder as `relpos` leaves it, with a record and what is not to be packed."""
    record = {
        "state": state,
        "starts": [{"time": "2026-01-01", "pid": 7, "host": "secret-host", "threads": 1}],
        "inputs": {"store": "store/files-1", "start": "/secret/network"},
        "command": "relpos reproduce table=t 'data.root=/my secret/text' network=~/secret "
        "workers=2 'rows=[a]'",
    }
    for name in (
        "config.yaml",
        "metrics.jsonl",
        "model/model.safetensors",
        "results.json",
        "log.txt",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, encoding="utf-8")
    (folder / "record.json").write_text(json.dumps(record), encoding="utf-8")


def test_finished_runs_are_packed_without_weights_and_without_what_names_a_machine(tmp_path):
    run(tmp_path / "pretrain" / "a", "finished")
    run(tmp_path / "pretrain" / "b", "failed")
    run(tmp_path / "order" / "shuffle-a", "finished")
    archives = [tmp_path / "one.tar.xz", tmp_path / "two.tar.xz"]
    for archive in archives:
        subprocess.run(
            [sys.executable, ROOT / "experiments" / "pack.py", tmp_path, archive], check=True
        )
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as tar:
        tar.extractall(tmp_path / "again", filter="data")
    packed = {
        str(path.relative_to(tmp_path / "again")): path
        for path in (tmp_path / "again").rglob("*")
        if path.is_file()
    }
    names = "config.yaml", "metrics.jsonl", "record.json", "results.json"
    assert sorted(packed) == [
        f"{place}/{name}" for place in ("order/shuffle-a", "pretrain/a") for name in names
    ]
    text = packed["pretrain/a/record.json"].read_text(encoding="utf-8")
    assert "secret" not in text
    assert "pid" not in text
    record = json.loads(text)
    assert record["inputs"] == {"store": "store/files-1", "start": "network"}
    assert record["command"] == "relpos reproduce table=t 'rows=[a]'"

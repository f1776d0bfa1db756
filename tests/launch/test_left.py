"""What a kill of a launcher leaves is removed by the next launch, and nothing that somebody still reads."""

import fcntl
import os
from pathlib import Path

from relpos.files import remove_left, write_json
from relpos.launch.engine import BOOK, FRESH, _is_left


def old(folder: Path) -> Path:
    folder.mkdir()
    os.utime(folder, (0, 0))
    return folder


def test_a_launch_that_is_over_is_told_from_one_that_is_not(tmp_path: Path) -> None:
    over, held, of_cluster = (old(tmp_path / name) for name in ("launch-a", "launch-b", "launch-c"))
    (of_cluster / "slurm").mkdir()
    os.utime(of_cluster, (0, 0))
    write_json(tmp_path / BOOK, {"1_0": "identity"})
    (tmp_path / "launch-d").mkdir()  # of this minute: its launcher may not have locked it yet
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert FRESH > 0
    assert [folder.name for folder in sorted(tmp_path.iterdir()) if folder.is_dir() and _is_left(folder)] == [over.name]
    os.close(descriptor)
    assert _is_left(held)
    write_json(tmp_path / BOOK, {})  # nothing is in the queue any more
    assert _is_left(of_cluster)


def test_half_written_files_are_removed_and_other_hidden_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    for name in (".record.json.123", "model/.model.safetensors.77", "model/.x.json.12.0123abcd", ".hidden", "record.json"):
        (tmp_path / name).touch()
    remove_left(tmp_path, 3600)
    assert (tmp_path / ".record.json.123").exists()  # somebody may be writing it
    remove_left(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [".hidden", "record.json"]

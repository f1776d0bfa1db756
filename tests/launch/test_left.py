"""What a kill of a launcher leaves is removed by the next launch, and nothing that somebody still
reads."""

from relpos.files import remove_left
from relpos.launch.engine import SCRIPT, _is_over
from relpos.runs.lock import locked


def test_a_launch_that_is_over_is_told_from_one_that_is_not(tmp_path):
    over, held, of_cluster = (tmp_path / name for name in ("launch-a", "launch-b", "launch-c"))
    for folder in (over, of_cluster):
        with locked(folder):
            pass
    (of_cluster / SCRIPT).touch()  # tasks may wait in the queue
    (tmp_path / "launch-d").mkdir()  # its launcher has not locked it yet
    with locked(held):
        assert [folder.name for folder in sorted(tmp_path.iterdir()) if _is_over(folder)] == [
            over.name
        ]
    assert _is_over(held)


def test_half_written_files_are_removed_and_other_hidden_files_are_not(tmp_path):
    (tmp_path / "model").mkdir()
    for name in (
        ".record.json.123",
        "model/.model.safetensors.77",
        "model/.x.json.12.0123abcd",
        ".hidden",
        "record.json",
    ):
        (tmp_path / name).touch()
    remove_left(tmp_path, 3600)
    assert (tmp_path / ".record.json.123").exists()  # somebody may be writing it
    remove_left(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        ".hidden",
        "record.json",
    ]

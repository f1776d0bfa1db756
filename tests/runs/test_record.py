"""What a run's folder says, when it is damaged or cannot be written."""

from pathlib import Path

import pytest

from relpos.errors import RelposError
from relpos.files import write_json
from relpos.runs.run import read_record


@pytest.mark.parametrize("content", [b"", b'{"state": "fin', b"[1]", b"\xff\xfe"])
def test_a_damaged_record_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(RelposError, match=r"damaged record .*record\.json: delete the folder to start anew"):
        read_record(tmp_path)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RelposError, match=r"cannot write .*record\.json \("):
        write_json(tmp_path / "file" / "run" / "record.json", {})

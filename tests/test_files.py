"""Files and folders are whole or absent, and a full disk is one line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from relpos import files
from relpos.errors import RelposError


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_json_comes_back(tmp_path: Path) -> None:
    files.write_json(tmp_path / "a" / "b.json", {"ä": 1})
    assert (tmp_path / "a" / "b.json").read_text(encoding="utf-8") == '{\n "ä": 1\n}\n'


def test_what_stood_there_survives_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_text(tmp_path / "a.txt", "old")
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(RelposError, match=r"cannot write .*a\.txt \([\d,]+ MB free\): .*No space left"):
        files.write_text(tmp_path / "a.txt", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]


def test_a_folder_takes_its_place_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "old").touch()
    with files.replacing_folder(tmp_path / "place") as folder:
        (folder / "new").touch()
        assert [path.name for path in (tmp_path / "place").iterdir()] == ["old"]
    assert [path.name for path in tmp_path.rglob("*")] == ["place", "new"]


def write_half(place: Path) -> None:
    with files.replacing_folder(place) as folder:
        (folder / "half").write_text("x")
        no_room()


def test_of_a_folder_that_failed_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(RelposError, match=r"cannot write .*place \([\d,]+ MB free\): No space left"):
        write_half(tmp_path / "place")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_was_killed_is_cleared_by_the_next(tmp_path: Path) -> None:
    with files.replacing_folder(tmp_path / "place") as folder:
        pass
    folder.mkdir()
    (folder / "half").touch()
    with files.replacing_folder(tmp_path / "place") as again:
        assert not list(again.iterdir())
    assert not folder.exists()


def _folder(tmp_path: Path):  # type: ignore[no-untyped-def]
    return files.replacing_folder(tmp_path / "place")

"""Files and folders are whole or absent, and a full disk is one line."""

import errno
import os
from pathlib import Path

import pytest

from relpos import files, readers
from relpos.errors import RelposError


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_json_is_indented_and_makes_its_folder(tmp_path):
    files.write_json(tmp_path / "a" / "b.json", {"ä": 1})
    assert (tmp_path / "a" / "b.json").read_text(encoding="utf-8") == '{\n "ä": 1\n}\n'


def test_the_old_file_survives_a_full_disk(tmp_path, monkeypatch):
    files.write_text(tmp_path / "a.txt", "old")
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(
        RelposError, match=r"cannot write .*a\.txt \([\d,]+ MB free\): .*No space left"
    ):
        files.write_text(tmp_path / "a.txt", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]


def test_a_folder_takes_its_place_at_the_end(tmp_path):
    (tmp_path / "place").mkdir()
    with files.replacing_folder(tmp_path / "place") as folder:
        (folder / "new").touch()
        assert not list((tmp_path / "place").iterdir())
    assert [path.name for path in tmp_path.rglob("*")] == ["place", "new"]


def test_of_two_writers_of_one_folder_the_later_is_refused_and_leaves_nothing(tmp_path):
    later = files.replacing_folder(tmp_path / "place")
    (later.__enter__() / "b").write_text("of the later")
    with files.replacing_folder(tmp_path / "place") as earlier:
        (earlier / "a").write_text("of the earlier")
    with pytest.raises(RelposError, match="place has files, which another process has written"):
        later.__exit__(None, None, None)
    assert {path.name: path.is_file() for path in tmp_path.rglob("*")} == {
        "place": False,
        "a": True,
    }


def write_half(place: Path) -> None:
    with files.replacing_folder(place) as folder:
        (folder / "half").write_text("x")
        no_room()


def test_a_folder_whose_writer_fails_leaves_nothing(tmp_path):
    with pytest.raises(
        RelposError, match=r"cannot write .*place \([\d,]+ MB free\): No space left"
    ):
        write_half(tmp_path / "place")
    assert not list(tmp_path.iterdir())


def test_the_folder_of_a_killed_writer_is_removed_an_hour_later(tmp_path):
    old, new, other = (
        tmp_path / name for name in (".place.1.0123abcd", ".place.2.0123abcd", ".places.1.0123abcd")
    )
    for folder in (old, new, other):
        files.write_text(folder / "half", "x")
    for folder in (old, other):
        os.utime(folder, (0, 0))
    with files.replacing_folder(tmp_path / "place"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"place", new.name, other.name}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1\nb: 2\n", ":2: not YAML: did not find expected ',' or ']'"),
        ("a: 1\nb: 2\na: 3\n", ":3: not YAML: 'a' is given twice"),
        ("a: 1\n--- \nb: 2\n", ":2: not YAML: but found another document"),
        (b"a: \xff\n", ": not YAML: 'utf-8' codec can't decode"),
        (b"a: \x00\n", ": not YAML: unacceptable character #x0000: control characters are not "
                       "allowed"),
        ("[" * 50_000 + "]" * 50_000, ":1: not YAML: nested more than 50 deep"),
        ("- " * 50_000, ":1: not YAML: nested more than 50 deep"),
        ("{a: " * 100_000, ":1: not YAML: nested more than 50 deep"),
        ("- &a [1, 1]\n" + "- &a [*a, *a]\n" * 40, ":15: not YAML: more than 100,000 values"),
        ("a: &a [*a]\n", ":1: not YAML: *a stands before the end of what it stands for"),
        ("- 1\n" * 100_001, ":100000: not YAML: more than 100,000 values"),
        ("#" * 1_000_001, ": larger than 1,000,000 bytes"),
        ("a: !!python/object/apply:os.system [ls]\n", ":1: not YAML: the tag "
                                                      "tag:yaml.org,2002:python/object/apply:os.system"),
        ("a: !!int x\n", ":1: not YAML: the tag tag:yaml.org,2002:int is not read"),
        ("a: " + "9" * 5000, ": not YAML: Exceeds the limit (4300 digits)"),
        ("[a]: 1\n", ":1: not YAML: found unhashable key"),
    ],
)  # fmt: skip
def test_wrong_yaml_of_a_stranger_is_one_line(tmp_path, content, message):
    path = tmp_path / "a.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RelposError) as caught:
        readers.read_yaml(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", "No such file or directory"),
        (".", "a folder, where a file is expected"),
        ("pipe", "a pipe or a device, where a file is expected"),
        ("/dev/zero", "a pipe or a device, where a file is expected"),
        ("/proc/self/mem", "Input/output error"),
        ("a\0b", "embedded null (byte|character in path)"),
        ("a" * 300, "File name too long"),
    ],
)
def test_only_a_regular_file_is_read(tmp_path, path, message):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RelposError, match=f": {message}$"):
        readers.read_yaml(tmp_path / path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 0.0001),
        ("1E+3", 1000.0),
        ("-2.5e3", -2500.0),
        (".5e1", 5.0),
        ("1e", "1e"),
        ("'1e-4'", "1e-4"),
        ("e5", "e5"),
    ],
)
def test_a_number_with_an_exponent_needs_no_point(tmp_path, text, value):
    (tmp_path / "a.yaml").write_text(f"a: {text}\n")
    assert repr(readers.read_yaml(tmp_path / "a.yaml")["a"]) == repr(value)


def test_a_date_is_a_word_and_an_alias_what_it_stands_for(tmp_path):
    (tmp_path / "a.yaml").write_text("a: &x {b: 2026-01-02}\nc: *x\nd: {<<: *x}\n")
    assert readers.read_yaml(tmp_path / "a.yaml") == {key: {"b": "2026-01-02"} for key in "acd"}

"""Files that others can write are read by `relpos.readers`, which refuse in one line what cannot be
read."""

import ast
import json
import os
from pathlib import Path

import pytest

import relpos
from relpos.errors import RelposError
from relpos.readers import BYTES, json_lines, read_bytes, read_json, read_text, read_yaml

SOURCES = Path(relpos.__file__).parent
READERS = {
    "read_text",
    "read_bytes",
    "open",
    "fdopen",
    "fromfile",
    "genfromtxt",
    "loadtxt",
    "memmap",
    "load_file",
    "safe_open",
}
LOADERS = {"json.load", "np.load", "torch.load", "yaml.load", "yaml.safe_load", "OmegaConf.load"}
ELSEWHERE = {
    "files.py": "a file that is copied as it is",
    "readers.py": "the readers",
    "cli.py": "os.devnull",
    "launch/engine.py": "a folder, to lock it",
    "config/conf.py": "our own configuration",
    "config/help.py": "our own configuration",
    "commands/analyze.py": "our own configuration",
    "commands/params.py": "our own printed numbers",
    "claims/exact.py": "our own printed numbers",
    "train/standalone.py": "our own source",
    "runs/cost.py": "what the kernel says of the processor",
    "data/textfile.py": "text of any size, once it is known to be a regular file",
    "data/store.py": "arrays, once their checksums are compared, and the offsets that it has just "
    "written",
    "pretrained/stored.py": "the one reader of weights",
    "runs/training.py": "a checkpoint, once its checksum is compared",
}
"""File → what it reads otherwise than by the readers."""


def reads(tree: ast.AST) -> set[str]:
    """The calls that read a file by other means than the readers."""
    calls = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function, name = node.func, ast.unparse(node.func)
        last = name.rpartition(".")[2]
        # A bare name is one of the readers themselves, or of safetensors.
        reader = last in READERS and (
            isinstance(function, ast.Attribute) or last in ("open", "load_file", "safe_open")
        )
        words = [
            word.value
            for word in node.args
            if isinstance(word, ast.Constant) and isinstance(word.value, str)
        ]
        writes = last in ("open", "fdopen") and bool(words) and bool(set(words[-1]) & set("wax"))
        first = ast.unparse(node.args[0]) if node.args else ""
        # Files of our package; the text that a reader has read; `standing` of relpos.launch opens
        # no file.
        harmless = (
            "joinpath(" in name or first.startswith("read_text(") or name.endswith("standing.open")
        )
        if (reader or name in LOADERS) and not writes and not harmless:
            calls.add(ast.unparse(node))
    return calls


def test_all_files_are_read_by_the_readers():
    for path in SOURCES.rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        if name not in ELSEWHERE and not name.startswith("model/kernels/"):
            assert reads(ast.parse(path.read_text("utf-8"))) == set(), name


@pytest.mark.parametrize("read", [read_bytes, read_text, read_yaml, json_lines])
def test_a_pipe_a_device_and_a_folder_are_refused(read, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind in (
        (tmp_path / "pipe", "a pipe or a device"),
        (Path("/dev/zero"), "a pipe or a device"),
        (tmp_path, "a folder"),
    ):
        with pytest.raises(RelposError, match=f"{path}: {kind}, where a file is expected"):
            read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (b"[" * 200_000, "damaged: nested too deep"),
        (b"[" * 60 + b"]" * 60, "damaged: nested more than 50 deep"),
        (b'{"a":\n 1,\n', "line 3: damaged"),
        (b'{"a":\n "\xff"}', "line 2: not UTF-8"),
        (b"[1]", "damaged: content: Input should be a valid dictionary"),
        (b'{"a": {}}', "damaged: a: Input should be a valid integer"),
    ],
)
def test_damaged_json_is_named_with_its_line(content, message, tmp_path):
    path = tmp_path / "small.json"
    path.write_bytes(content)
    with pytest.raises(RelposError) as caught:
        read_json(path, dict[str, int])
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(
        RelposError, match=r"large: larger than 268,435,456 bytes, which no such file is"
    ):
        read_json(tmp_path / "large", dict)
    with pytest.raises(RelposError, match=f"larger than {BYTES:,} bytes"):
        read_yaml(tmp_path / "large")


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": \n{"step": 3}\n{"st', encoding="utf-8")
    with pytest.raises(RelposError, match=r"metrics\.jsonl, line 2: damaged: "):
        json_lines(path)
    path.write_text('{"step": 1}\n{"step": 2}\n{"st', encoding="utf-8")
    assert json_lines(path) == [{"step": 1}, {"step": 2}]
    assert json_lines(path, end=20) == [{"step": 2}]
    assert json_lines(tmp_path / "missing") == []


def test_a_missing_file_has_the_default_value(tmp_path):
    assert read_json(tmp_path / "missing.json", dict, {}) == {}
    with pytest.raises(RelposError, match=r"missing\.json: No such file"):
        read_json(tmp_path / "missing.json", dict)
    (tmp_path / "good.json").write_text(json.dumps({"a": 1}), encoding="utf-8")
    assert read_json(tmp_path / "good.json", dict[str, int]) == {"a": 1}


@pytest.mark.parametrize(
    "keys",
    [
        "a a",
        '1 "1"',
        '"1" 1',
        'null "None"',
        '1.0 "1.0"',
        'true "True"',
        "0x10 16",
        "007 7",
        "1 1.0",
        "1 true",
        "~ null",
    ],
)
def test_two_keys_that_would_become_one_are_refused_with_their_line(keys, tmp_path):
    first, second = keys.split()
    (tmp_path / "t.yaml").write_text(f"rows:\n  {first}: x\n  {second}: y\n")
    with pytest.raises(RelposError) as caught:
        read_yaml(tmp_path / "t.yaml")
    assert str(caught.value).endswith(" is given twice")
    assert "t.yaml:3: not YAML: " in str(caught.value)

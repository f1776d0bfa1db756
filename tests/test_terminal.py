"""What a stranger has written is no command to a terminal, and no formula to a spreadsheet."""

import ast
import csv
import io
import json
import pickle
import time
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from rich.text import Text

import relpos
from pretend import bare
from relpos.cli import main
from relpos.config.compose import compose
from relpos.errors import RelposError, printable
from relpos.launch.jobs import Job
from relpos.progress import bar, plain_console
from relpos.runs.plan import plan
from relpos.runs.run import Run
from relpos.tables.render import text
from relpos.tables.render.view import view_of
from tables.small_data import write_experiment
from tables.written_table import table

CLEAR = "\x1b[2J\x1b]0;title\x07"
"""Clears a terminal and gives its window another title."""


def _one_run(tmp_path: Path) -> tuple[Path, Run]:
    """An experiment file, and the run that it plans."""
    overrides = ["size=tiny", "position=none", "steps=1"]
    file = write_experiment(
        tmp_path,
        stages={"pretrain": []},
        base=["data=toy"],
        rows={"a": overrides},
        tasks=[],
        seeds=[0],
    )
    return file, plan(compose("pretrain", [*overrides, "data=toy", "seed=0"]))


def test_control_characters_are_spelled_out():
    assert (
        printable(f"a{CLEAR}b\tc\nd\x9b\u202e") == "a\\x1b[2J\\x1b]0;title\\x07b\tc\nd\\x9b\\u202e"
    )
    assert str(RelposError(CLEAR)) == printable(CLEAR)
    assert str(pickle.loads(pickle.dumps(RelposError(CLEAR)))) == printable(CLEAR)


def test_a_question_with_control_characters_is_refused_with_its_line(tmp_path, refused):
    path = write_experiment(tmp_path, question=CLEAR)
    line = refused("reproduce", f"table={path}", "dry_run=true")
    assert f"{path}:1: not YAML: a control character" in line


def test_an_error_line_with_a_strangers_text_is_plain(tmp_path, refused):
    folder = tmp_path / f"model{CLEAR}"
    folder.mkdir()
    for network in (folder, tmp_path / f"none{CLEAR}"):
        line = refused("order", f"network='{network}'")
        assert "\x1b" not in line
        assert "\\x1b[2J" in line


def test_a_record_is_shown_plainly(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "runs"))
    file, run = _one_run(tmp_path)
    run.update(state="failed", error=f"no{CLEAR}", starts=[{"host": CLEAR}])
    assert main(["status", f"table={file}"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "no\\x1b[2J" in shown


def test_a_console_keeps_its_own_colours():
    shown = io.StringIO()
    plain_console(force_terminal=True, file=shown, color_system="standard").print(
        Text("a\x1b[2J", style="red")
    )
    assert shown.getvalue() == "\x1b[31ma\\x1b[2J\x1b[0m\n"


def test_work_without_a_terminal_is_not_silent(monkeypatch, capfd):
    monkeypatch.setattr("relpos.progress.SECONDS", 0.01)
    with bar("reading text", 3_000) as advance:
        advance(2_000)
        while "relpos: reading text: 2,000 of 3,000 after " not in capfd.readouterr().err:
            time.sleep(0.01)
    with redirect_stderr(io.StringIO()) as stderr, bar("in a pool", 1):
        time.sleep(0.1)
    assert stderr.getvalue() == ""


def test_a_plan_that_was_edited_makes_no_files_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "runs"))
    file, _ = _one_run(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    record = {"state": "running", "starts": [{"pid": 1, "host": "there"}]}
    (tmp_path / "elsewhere" / "record.json").write_text(json.dumps(record))
    Job([bare("pretend", "x", {}, {}, folder=str(tmp_path / "elsewhere"))]).write(
        tmp_path / "runs" / "tables" / "small" / "plan.json"
    )
    assert main(["status", f"table={file}"]) == 0
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["record.json"]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_cell_of_a_table_is_a_formula(name):
    example = table()
    example.rows[0].__dict__["name"] = name  # frozen
    first = next(csv.DictReader(io.StringIO(text.comma_separated(view_of(example)))))
    assert first["row"] == f"'{name}"


def test_all_text_is_printed_by_say_or_printable():
    """Through `say` on stderr, through `printable` on stdout; but for help, version, completion and
    answers of trials on a GPU."""
    for path in Path(relpos.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "print",
                "sys.stderr.write",
                "sys.stdout.write",
            ):
                call = ast.unparse(node)
                own = path.name == "cli.py" and any(
                    word in call for word in ("help_of", "HELP", "version(", "commands()")
                )
                assert (
                    call.startswith("print(printable(")
                    or own
                    or call == "print(json.dumps(trial(*arguments)))"
                ), f"{path}: {call}"

"""The finished runs of a stage, what they logged, and the protocol that most of them share."""

import json
from pathlib import Path

import pytest

from pretend import STAGE, pretend, working
from relpos.errors import RelposError
from relpos.runs.execute import execute
from relpos.runs.run import identity_of, runs_root, stage_class
from relpos.runs.shelf import (
    LOGGED,
    TAIL,
    finished,
    is_current,
    logged,
    most_shared,
    newest,
    protocol,
    run_folders,
)


def _run(name: str, record: object) -> Path:
    folder = runs_root() / "pretrain" / name
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(
        record if isinstance(record, str) else json.dumps(record), encoding="utf-8"
    )
    return folder


def test_only_finished_runs_are_read_in_the_order_of_their_names():
    for name, state in (("c", "finished"), ("a", "finished"), ("b", "running")):
        _run(name, {"state": state})
    (runs_root() / "pretrain" / "without-record").mkdir()
    assert [folder.name for folder, _ in finished("pretrain")] == ["a", "c"]
    assert [folder.name for folder in run_folders("pretrain")] == ["a", "b", "c"]


def test_a_damaged_record_is_named_and_left_out(capsys):
    damaged = _run("a", '{"state": "fin')
    whole = _run("b", {"state": "finished"})
    assert list(finished("pretrain")) == [(whole, {"state": "finished"})]
    assert capsys.readouterr().err.startswith(f"relpos: damaged record {damaged / 'record.json'}")


def test_a_record_of_another_version_of_the_code_is_not_current():
    record = {
        "stage": "finetune",
        "meaning": {"seed": 0},
        "inputs": {"start": "/runs/pretrain/tisa-2x64-abc"},
    }
    record["identity"] = identity_of(stage_class("finetune"), {"seed": 0}, {"start": "abc"})
    assert is_current(record)
    assert not is_current(record | {"stage": "pretrain"})


def test_a_last_line_that_is_being_written_is_not_read(tmp_path):
    (tmp_path / LOGGED).write_text('{"step": 1}\n{"step": 2}\n{"step": 3, "lo', encoding="utf-8")
    assert logged(tmp_path) == [{"step": 1}, {"step": 2}]
    assert newest(tmp_path) == {"step": 2}


def test_a_log_that_a_hand_has_changed_is_named_when_it_is_read(monkeypatch):
    monkeypatch.setattr(
        *working(STAGE, lambda run: {"bytes": (run.path / LOGGED).write_text('{"step": 1}\n')})
    )
    run = execute(pretend())
    assert logged(run.path) == [{"step": 1}]
    (run.path / LOGGED).write_text('{"step": 2}\n')
    with pytest.raises(
        RelposError, match=f"^damaged: {run.path / LOGGED} is not what its run has written"
    ):
        logged(run.path)
    (run.path / LOGGED).unlink()
    with pytest.raises(RelposError, match=f"^{run.path / LOGGED}: No such file or directory"):
        logged(run.path)


def test_the_newest_line_of_a_long_file_is_found(tmp_path):
    (tmp_path / LOGGED).write_text(
        "".join(f'{{"step": {step}, "where": "Zürich"}}\n' for step in range(TAIL)),
        encoding="utf-8",
    )
    assert newest(tmp_path)["step"] == logged(tmp_path)[-1]["step"] == TAIL - 1


@pytest.mark.parametrize("content", [None, b"", b"\x00\x00}\n", b"\xff}\n"])
def test_a_run_that_has_logged_nothing_readable_has_no_newest_line(tmp_path, content):
    if content is not None:
        (tmp_path / LOGGED).write_bytes(content)
    assert newest(tmp_path) == {}


def test_runs_that_differ_in_the_seed_alone_have_one_protocol():
    assert (
        protocol({"seed": 0, "lr": 1.0})
        == protocol({"lr": 1.0, "seed": 1})
        != protocol({"lr": 2.0, "seed": 0})
    )


def test_the_protocol_of_most_runs_is_taken_and_the_first_of_equal_ones():
    runs = [
        ("RTE", "a", None),
        ("RTE", "b", None),
        ("RTE", "b", None),
        ("CoLA", "b", None),
        ("CoLA", "a", None),
    ]
    assert most_shared(runs, [None]) == {"RTE": "b", "CoLA": "b"}


def test_a_group_with_many_runs_does_not_decide_for_one_with_few():
    runs = [
        ("RTE", way, group)
        for way, group, count in [(1, "a", 9), (1, "b", 1), (2, "a", 2), (2, "b", 2)]
        for _ in range(count)
    ]
    assert most_shared([(what, str(way), group) for what, way, group in runs], "ab") == {"RTE": "2"}


def test_what_one_group_lacks_in_every_protocol_is_left_out():
    assert most_shared([("RTE", "a", "first"), ("RTE", "b", "second")], ["first", "second"]) == {}

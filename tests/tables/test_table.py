"""`table.json`: what was written is read again, and shown as it was."""

import json
from types import SimpleNamespace

import pytest

from relpos.config.conf import shipped
from relpos.errors import RelposError
from relpos.runs.table_file import read_table
from relpos.tables.render import text
from relpos.tables.render.view import view_of
from relpos.tables.table import Table, made_with
from tables.written_table import table

WRITTEN = sorted((shipped("experiments") / "results").glob("*/table.json"))


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.parent.name)
def test_a_table_in_the_repository_is_shown_as_it_was(path):
    view = view_of(read_table(path.parent, Table))
    assert text.markdown(view) == (path.parent / "table.md").read_text(encoding="utf-8")
    assert text.comma_separated(view) == (path.parent / "table.csv").read_text(encoding="utf-8")


def test_a_table_says_what_its_finished_runs_were_made_with():
    record = {
        "hardware": {"processor": "a CPU", "instructions": "avx2"},
        "commit": "01234567",
        "versions": {"torch": "2.13.0"},
    }
    records = [record, record, record | {"hardware": {"processor": "another"}}]
    runs = [
        SimpleNamespace(path=place, record=content, state="finished")
        for place, content in enumerate(records)
    ]
    plan = [
        SimpleNamespace(runs=runs),
        SimpleNamespace(runs=[*runs[:1], SimpleNamespace(path=3, record={}, state="missing")]),
    ]
    sentence = (
        "Runs were made on a CPU, avx2 (2) and another (1); with torch 2.13.0; at commit 0123456."
    )
    assert (made_with(plan), made_with(plan[:0])) == (sentence, "")


def test_a_table_read_from_its_file_is_the_one_that_was_written(tmp_path):
    table().write(tmp_path)
    assert read_table(tmp_path, Table) == table()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"name": "t", "question": "?"}, "rows: Field required"),
        (
            {"name": "t", "question": "?", "rows": [{"name": "a", "perplexity": "low"}]},
            "rows.0.perplexity: ",
        ),
        ({"name": "t", "question": "?", "rows": ["words"]}, "rows.0: "),
        ([], "damaged"),
    ],
)
def test_a_damaged_file_is_one_line_that_names_the_place(content, message, tmp_path):
    (tmp_path / "table.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RelposError) as caught:
        read_table(tmp_path, Table)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "table.json"))
    assert "\n" not in str(caught.value)

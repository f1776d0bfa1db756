"""`table.json`: what was written is read again, and shown as it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from relpos.config.conf import shipped
from relpos.errors import RelposError
from relpos.tables.render import text
from relpos.tables.render.view import view_of
from relpos.tables.table import Table, read
from tables.written_table import table

WRITTEN = sorted((shipped("experiments") / "results").glob("*/table.json"))


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.parent.name)
def test_a_table_in_the_repository_is_shown_as_it_was(path: Path) -> None:
    view = view_of(read(path))
    assert text.markdown(view) == (path.parent / "table.md").read_text(encoding="utf-8")
    assert text.comma_separated(view) == (path.parent / "table.csv").read_text(encoding="utf-8")


def test_there_are_tables_in_the_repository() -> None:
    assert len(WRITTEN) >= 6


def test_nothing_is_lost_on_the_way_to_the_file_and_back(tmp_path: Path) -> None:
    table().write(tmp_path)
    assert read(tmp_path / "table.json") == table()


def test_what_an_older_table_does_not_say_has_its_default() -> None:
    column = {"values": [1.0], "seeds": ["0/1"], "mean": 1, "unknown": 3}
    (row,) = Table.from_dict({"name": "old", "question": "?", "rows": [{"name": "a", "columns": {"cola": column}}]}).rows
    assert (row.columns["cola"].mean, row.columns["cola"].seeds, row.columns["cola"].n_failed) == (1.0, ["0/1"], 0)
    assert (row.parameters, row.mean.values) == (None, [])


def test_the_overrides_of_an_older_table_are_read_by_their_older_name() -> None:
    rows = [{"name": "a", "words": ["position=none"]}, {"name": "b", "words": []}, {"name": "c"}]
    table = Table.from_dict({"name": "old", "question": "?", "rows": rows})
    assert [row.overrides for row in table.rows] == [["position=none"], [], []]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.parent.name)
def test_the_overrides_of_a_table_in_the_repository_are_kept(path: Path) -> None:
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [row.overrides for row in read(path).rows] == [row.get("overrides", row.get("words")) for row in rows]


def test_a_table_is_written_with_the_newer_name(tmp_path: Path) -> None:
    table().write(tmp_path)
    row = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))["rows"][0]
    assert row["overrides"] == ["position=any"]
    assert "words" not in row


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"name": "t", "question": "?"}, "rows: Field required"),
        ({"name": "t", "question": "?", "rows": [{"name": "a", "perplexity": "low"}]}, "rows.0.perplexity: "),
        ({"name": "t", "question": "?", "rows": ["words"]}, "rows.0: "),
        ([], "content: "),
    ],
)
def test_a_damaged_file_is_one_line_that_names_the_place(content: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RelposError) as caught:
        read(tmp_path / "table.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "table.json"))
    assert "\n" not in str(caught.value)


def test_half_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text('{"name": "t", "rows": [', encoding="utf-8")
    with pytest.raises(RelposError, match="table.json: Expecting value"):
        read(tmp_path / "table.json")

"""The figure of a table's rows at the end of the pre-trainings."""

from dataclasses import replace
from pathlib import Path

from relpos.measures.measure import measured_columns
from relpos.tables.render import pictures
from relpos.tables.render.pictures import draw_ends
from relpos.tables.row import NATS, Column, Row


def row(name: str, loss: float, *gaps: float) -> Row:
    gap = Column(values=list(gaps), mean=sum(gaps) / len(gaps), metric=NATS)
    end = Column(values=[loss], mean=loss, metric=NATS)
    return Row(name, columns={"shuffle_gap": gap}, snapshots={100: {"heldout_loss": end}})


def test_every_pre_training_is_drawn_and_the_picture_is_made_again_only_if_one_changes(tmp_path: Path) -> None:
    path = tmp_path / "rows.png"
    rows = [row("none", 6.1, 0.0, 0.0), row("fixed", 5.2, 1.4, 1.5)]
    draw_ends(path, rows)
    before = path.stat().st_mtime_ns, path.read_bytes()
    assert before[1].startswith(b"\x89PNG")
    draw_ends(path, rows)
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    draw_ends(path, [rows[0], row("fixed", 5.2, 1.4, 1.6)])
    assert path.read_bytes() != before[1]


def test_rows_without_columns_about_order_have_no_picture(tmp_path: Path) -> None:
    draw_ends(tmp_path / "rows.png", [replace(row("none", 6.1, 0.0), columns={}, snapshots={})])
    assert not (tmp_path / "rows.png").exists()


def test_a_row_that_the_first_panel_lacks_is_drawn_in_the_others() -> None:
    column = Column(values=[0.1], mean=0.1, metric=NATS)
    figure = pictures._ends({"shuffle_gap": {"a": column}, "mirror_gap": {"a": column, "b": column}})
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b"]


def test_titles_of_neighbouring_panels_do_not_run_into_each_other() -> None:
    names = list(measured_columns())
    column = Column(values=[0.1], mean=0.1, metric=NATS)
    figure = pictures._ends({name: {"a row": column} for name in names})
    figure.draw_without_rendering()
    widths = [axes.xaxis.label.get_window_extent() for axes in figure.axes if axes.axison]
    assert len(widths) == len(names)
    assert not any(one.overlaps(other) for place, one in enumerate(widths) for other in widths[:place])

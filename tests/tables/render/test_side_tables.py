"""Differences to the baseline row and losses at other lengths are in every form of a table."""

from dataclasses import replace

from relpos.tables.comparison import with_comparisons
from relpos.tables.render import text
from relpos.tables.render.html import write_html
from relpos.tables.render.text import latex
from relpos.tables.render.view import view_of
from relpos.tables.table import Table
from tables.made_rows import around, experiment, of_pretrainings, row


def test_delta_is_shown_with_its_star():
    rows = [of_pretrainings("base", around(60.0)), of_pretrainings("better", around(64.0))]
    view = view_of(Table("t", "?", with_comparisons(rows, experiment(baseline=["base"]), {})))
    assert "| better | +4.0 (+10.0 %) * |" in text.markdown(view)
    assert r"better & +4.0 (+10.0 \%) * &" in latex(view)


def test_losses_at_other_lengths_are_in_every_form(tmp_path):
    losses = {"short": {"128": 3.0, "256": None}, "long": {"128": 3.1, "256": 3.25}}
    view = view_of(
        Table(
            "t",
            "?",
            [replace(row(name, around(60.0)), heldout_by_length=losses[name]) for name in losses],
        )
    )
    assert "| short | 3.000 | — |" in text.markdown(view)
    assert r"long & 3.100 & 3.250 \\" in latex(view)
    write_html(tmp_path / "t.html", view)
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert '<td data-value="3.25">3.250</td>' in page
    assert '<td data-value="3.0">3.000</td><td class="missing">—</td>' in page

"""The page of a table: its text, and how it looks and behaves in a real browser."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from relpos.tables.render.html import write_html
from relpos.tables.render.view import view_of
from relpos.tables.table import NATS, Column, Row, Table
from tables.written_table import table

PATIENCE = 400_000.0
"""Milliseconds that a busy machine may take to open the page, or to find what a test looks at."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page where it belongs, with the records that it links to."""
    tmp_path = tmp_path_factory.mktemp("page")
    path = tmp_path / "runs" / "tables" / "small" / "table.html"
    for row in table().rows:
        for run in row.runs:
            if run.state != "missing":
                folder = tmp_path / "runs" / run.path
                folder.mkdir(parents=True)
                (folder / "record.json").write_text("{}", encoding="utf-8")
    write_html(path, view_of(table()))
    return path


def test_the_page_names_no_address_to_load_from(page):
    text = page.read_text(encoding="utf-8")
    addresses = set(re.findall(r"\b(?:https?:)?//[^\s\"'<>)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"<(?:link|script|img)[^>]*(?:href|src)=\"(?!data:)", text)


def test_every_link_leads_to_a_record(page):
    links = re.findall(r'href="(\.\./[^"]+)"', page.read_text(encoding="utf-8"))
    # pre-trainings, CoLA, RTE with one that failed
    assert len(links) == len(set(links)) == 3 + 6 + 4
    assert all((page.parent / unquote(link)).resolve().is_file() for link in links)


def test_a_record_that_is_not_there_is_not_linked(tmp_path):
    write_html(tmp_path / "page.html", view_of(replace(table(), rows=table().rows[:1])))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "finished" in text
    assert "record.json" not in text


def test_names_and_questions_are_escaped(page):
    text = page.read_text(encoding="utf-8")
    assert "fixed &lt;b&gt;" in text
    assert "fixed <b>" not in text
    assert "100 % &amp; &lt;all&gt;?" in text


def test_a_missing_score_has_no_number(page):
    text = page.read_text(encoding="utf-8")
    row = text[text.index('data-value="dynamic"') :]
    cells = re.findall(r"<td.*?</td>", row[: row.index("</tr>")], flags=re.S)
    runs = cells.pop(2)
    assert "0/1 × 0/2" in runs
    assert len(cells) == 5
    assert all("data-value" not in cell and "—" in cell for cell in cells)


def test_a_figure_has_the_digits_of_its_numbers_and_the_rows_at_their_places(tmp_path):
    means = [0.002, 0.004]
    rows = [Row(f"lr {mean}", columns={"rte": Column(mean=mean, metric=NATS)}) for mean in means]
    write_html(tmp_path / "t.html", view_of(Table("t", "?", rows)))
    text = (tmp_path / "t.html").read_text(encoding="utf-8")
    ticks = re.findall(r'class="tick".*>([\d.]+)<', text)
    low, *inner, high = map(float, ticks)
    assert inner
    assert len({*ticks}) == len(ticks)
    places = map(float, re.findall(r'<circle cx="([\d.]+)%"', text))
    assert [*places] == pytest.approx(
        [100 * (mean - low) / (high - low) for mean in means], abs=0.01
    )


@pytest.fixture(
    params=[
        *(pytest.param((width, "light"), marks=pytest.mark.full) for width in (1280, 390)),
        (390, "dark"),
    ],
    ids=lambda given: f"{given[0]}-{given[1]}",
)
def shown(browser: Any, page: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page, opened; its error messages and requests fail the test."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on(
        "request",
        lambda asked: None if asked.url == page.as_uri() else complaints.append(asked.url),
    )
    tab.goto(page.as_uri())
    yield tab
    context.close()
    assert [text for text in complaints if text != "data:,"] == []


def names(tab: Any) -> list[str]:
    return [
        text.strip()
        for text in tab.locator("#table tbody th").evaluate_all(
            "cells => cells.map(cell => cell.dataset.value)"
        )
    ]


def test_a_click_on_a_head_sorts(shown):
    head = shown.locator("#table thead th", has_text="CoLA")
    orders = []
    for _ in range(3):
        head.locator("button").click()
        orders.append((head.get_attribute("aria-sort"), names(shown)))
    assert orders == [
        ("descending", ["composite", "fixed <b>", "none", "dynamic"]),
        ("ascending", ["none", "fixed <b>", "composite", "dynamic"]),  # what is missing stays last
        (None, ["none", "fixed <b>", "composite", "dynamic"]),
    ]


def test_the_page_is_no_wider_than_the_screen(shown):
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    first = shown.locator("#table tbody th").first
    shown.locator(".scroll").first.evaluate("box => box.scrollLeft = 1000")
    assert first.bounding_box()["x"] < 40  # the name of the row stays beside its numbers


def test_a_script_in_a_name_is_text(browser, tmp_path):
    hostile = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
    rows = [replace(row, name=f"{hostile} {row.name}", overrides=[hostile]) for row in table().rows]
    write_html(
        tmp_path / "table.html",
        view_of(replace(table(), rows=rows, name=hostile, question=f"{hostile} </script>?")),
    )
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto((tmp_path / "table.html").as_uri())
    for box in tab.locator("input[type=checkbox]").all():  # what the page's own script writes anew
        box.click()
    for head in tab.locator("#table thead th").all():
        head.click()
    assert tab.title() != "run"
    assert tab.locator("#table tbody img, #table tbody script").count() == 0
    assert tab.locator("#table tbody").inner_text().count("<script>") >= len(rows)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    context.close()

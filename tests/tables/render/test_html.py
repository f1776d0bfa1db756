"""The page of a table: its text, and how it looks and behaves in a real browser."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from relpos.tables.render.html import intervals, write_html
from relpos.tables.render.view import view_of
from relpos.tables.table import NATS, Column
from tables.written_table import table

PATIENCE = 400_000.0
"""Milliseconds that a busy machine may take to open the page, or to find what a test looks at."""
SMALLEST = 9.5
"""Pixels: letters below this are not read on a telephone."""
SIZES = """() => [...document.querySelectorAll("th, td, p, li, .line, .chip, figcaption, summary, svg text")].map(node => {
    const svg = node.ownerSVGElement;
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    return [node.textContent.trim().slice(0, 20), scale * parseFloat(getComputedStyle(node).fontSize)];
})"""
CONTRASTS = """() => {
    const straight = part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const light = colour => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(part => straight(part / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const page = light(getComputedStyle(document.body).backgroundColor);
    return [...document.querySelectorAll("p, .muted, .line, .chip, .value, a, svg text, .mark")].map(node => {
        const style = getComputedStyle(node);
        const own = light(node.ownerSVGElement ? style.fill : style.color);
        return [node.textContent.trim().slice(0, 20), (Math.max(own, page) + 0.05) / (Math.min(own, page) + 0.05)];
    });
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page where it belongs, with the records that it links to. Its figures take a second to draw: once for all tests."""
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


def test_it_names_no_other_place(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    addresses = set(re.findall(r"\b(?:https?:)?//[^\s\"'<>)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"<(?:link|script|img)[^>]*(?:href|src)=\"(?!data:)", text)


def test_every_record_is_linked_and_there(page: Path) -> None:
    links = re.findall(r'href="(\.\./[^"]+)"', page.read_text(encoding="utf-8"))
    assert len(links) == len(set(links)) == 3 + 6 + 4  # pre-trainings, CoLA, RTE with one that failed
    assert all((page.parent / unquote(link)).resolve().is_file() for link in links)


def test_a_record_that_is_not_there_is_not_linked(tmp_path: Path) -> None:
    write_html(tmp_path / "page.html", view_of(replace(table(), rows=table().rows[:1])))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "finished" in text
    assert "record.json" not in text


def test_text_of_others_is_escaped(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "fixed &lt;b&gt;" in text
    assert "fixed <b>" not in text
    assert "100 % &amp; &lt;all&gt;?" in text


def test_what_is_missing_has_no_number(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    row = text[text.index('data-value="dynamic"') :]
    cells = re.findall(r"<td.*?</td>", row[: row.index("</tr>")], flags=re.S)
    runs = cells.pop(2)
    assert "0/1 × 0/2" in runs
    assert len(cells) == 5
    assert all("data-value" not in cell and "—" in cell for cell in cells)


def test_a_figure_keeps_the_digits_of_its_numbers_and_the_letters_of_its_title() -> None:
    columns = [Column(values=[0.001, 0.003], mean=0.002, metric=NATS), Column(values=[0.004], mean=0.004, metric=NATS)]
    figure = intervals(r'a "b" & <c> \g', ["lr 0.0015", "lr 0.0003"], columns)
    texts = re.findall(r">([^<>]+)</text>", figure)
    assert {"lr 0.0015", "lr 0.0003"} <= set(texts)
    ticks = [text for text in texts if re.fullmatch(r"[\d.]+", text)]
    assert len(set(ticks)) == len(ticks) > 2
    assert r'aria-label="a &quot;b&quot; &amp; &lt;c&gt; \g: rows' in figure


@pytest.fixture(
    params=[*(pytest.param((width, "light"), marks=pytest.mark.full) for width in (1280, 390)), (390, "dark")],
    ids=lambda given: f"{given[0]}-{given[1]}",
)
def shown(browser: Any, page: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page, opened; what it complains of or asks for fails the test."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda asked: None if asked.url == page.as_uri() else complaints.append(asked.url))
    tab.goto(page.as_uri())
    yield tab
    context.close()
    assert [text for text in complaints if text != "data:,"] == []


def test_names_and_overrides_are_broken_between_words_only(shown: Any) -> None:
    lines = """() => [...document.querySelectorAll("#table tbody th a, #table .overrides span")].map(
        node => [node.textContent, node.getClientRects().length])"""
    texts = shown.evaluate(lines)
    assert len(texts) == 8
    assert [text for text, rectangles in texts if rectangles > 1 and " " not in text] == []


def test_a_table_that_is_cut_says_so_until_its_end_is_seen(shown: Any) -> None:
    scroller, note = shown.locator(".scroll").first, shown.locator(".more").first
    is_cut = scroller.evaluate("node => node.scrollWidth > node.clientWidth + 1")
    assert is_cut == (shown.viewport_size["width"] < 600)
    assert note.is_visible() == is_cut
    if is_cut:
        assert re.fullmatch(r"[1-3] more columns? →", note.inner_text())
        scroller.evaluate("node => node.scrollTo(node.scrollWidth, 0)")
        note.wait_for(state="hidden")


def test_a_telephone_shows_the_row_and_three_columns_beside_it(shown: Any) -> None:
    whole = """() => {
        const right = node => node.getBoundingClientRect().right;
        const edge = right(document.querySelector(".scroll"));
        return [...document.querySelectorAll("#table thead th")].filter(head => right(head) <= edge).length;
    }"""
    assert shown.evaluate(whole) >= 4


def names(tab: Any) -> list[str]:
    return [text.strip() for text in tab.locator("#table tbody th").evaluate_all("cells => cells.map(cell => cell.dataset.value)")]


def test_a_click_on_a_head_sorts(shown: Any) -> None:
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


def test_names_and_perplexities_sort_from_the_smallest(shown: Any) -> None:
    shown.locator("#table thead button", has_text="row").click()
    assert names(shown) == ["composite", "dynamic", "fixed <b>", "none"]
    shown.locator("#table thead button", has_text="perplexity").press("Enter")  # the keyboard does it too
    assert names(shown) == ["composite", "fixed <b>", "none", "dynamic"]
    assert shown.locator("[aria-sort]").count() == 1


def test_the_page_is_no_wider_than_the_screen(shown: Any) -> None:
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    first = shown.locator("#table tbody th").first
    shown.locator(".scroll").evaluate("box => box.scrollLeft = 1000")
    assert first.bounding_box()["x"] < 40  # the name of the row stays beside its numbers


def test_letters_are_large_and_plain_enough(shown: Any) -> None:
    sizes = shown.evaluate(SIZES)
    assert len(sizes) > 50
    assert [text for text, size in sizes if size < SMALLEST] == []
    contrasts = shown.evaluate(CONTRASTS)
    assert len(contrasts) > 50
    assert [text for text, contrast in contrasts if contrast < 4.5] == []  # WCAG, level AA


def test_parts_can_be_hidden(shown: Any) -> None:
    paper = shown.locator("#table .paper").first
    assert paper.is_visible()
    shown.locator("input[data-part=paper]").uncheck()
    assert not paper.is_visible()
    assert shown.locator("#table .spread").first.is_visible()


def test_a_row_leads_to_its_runs_and_they_to_their_records(shown: Any) -> None:
    details = shown.locator("details").nth(2)
    assert not details.locator("li").first.is_visible()
    shown.locator("#table tbody a", has_text="composite").click()
    details.locator("li").first.wait_for(state="visible")  # the browser tells of a new address after the click has returned
    assert "failed" in details.locator("li.failed").inner_text()
    assert details.locator("li a").first.get_attribute("href") == "../../pretrain/run%20p20/record.json"


def test_figures_show_every_row_and_say_what_is_missing(shown: Any) -> None:
    figures = shown.locator(".panels svg")
    assert figures.count() == 4  # mean, CoLA, RTE, held-out loss
    texts = figures.nth(1).locator("text").all_text_contents()
    assert {"none", "fixed <b>", "composite", "dynamic", "not run"} <= {text.strip() for text in texts}
    box = figures.nth(1).bounding_box()
    assert box["width"] > 250
    assert box["height"] > 80


def test_a_script_in_a_name_is_text(browser: Any, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
    rows = [replace(row, name=f"{hostile} {row.name}", overrides=[hostile]) for row in table().rows]
    write_html(tmp_path / "table.html", view_of(replace(table(), rows=rows, name=hostile, question=f"{hostile} </script>?")))
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

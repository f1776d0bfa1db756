"""The site that `make site` makes: no dead link, nothing from elsewhere, and as wide as a telephone's screen."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.packaging.links import ROOT

pytestmark = [pytest.mark.full, pytest.mark.slow]
SITE = ROOT / "docs" / "site"
BUILD = f"""
import runpy, sys
sys.path[:0] = [{str(SITE)!r}, {str(SITE.parent)!r}]
import pages
whole = pages.draw_pattern
pages.draw_pattern = lambda drawn, name, panel: whole(drawn, name, heads=1, panel=panel)
runpy.run_path({str(SITE / "build.py")!r}, run_name="__main__")
"""
"""The site with one head in each picture instead of four, which takes fifteen seconds less."""


class Page(HTMLParser):
    """The places of a page, and what it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attributes if value}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        self.links += [found[name] for name in ("href", "src") if name in found]
        self.loaded += [found[name] for name in ("src", "href") if name in found and tag != "a"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (make .venv/.site)")
    folder = tmp_path_factory.mktemp("site") / "built"
    command, environment = [sys.executable, "-c", BUILD, str(folder)], os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_no_link_is_dead(pages: dict[Path, Page]) -> None:
    dead = []
    for path, page in pages.items():
        for link in page.links if path.name != "404.html" else ():
            if re.match(r"[a-z][a-z0-9+.-]*:|//", link):
                continue
            file, _, anchor = link.partition("#")
            there = (path.parent / unquote(file)).resolve() if file else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists() or (anchor and there in pages and unquote(anchor) not in pages[there].places):
                dead.append(f"{path.name}: {link}")
    assert dead == []


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Page]) -> None:
    assert {address for page in pages.values() for address in page.loaded if re.match(r"[a-z]+:|//", address)} <= {"data:,"}


def test_every_scheme_has_its_page_with_formula_picture_and_code(site: Path) -> None:
    names = [path.stem for path in (ROOT / "conf" / "position").glob("*.yaml") if "???" not in path.read_text(encoding="utf-8")]
    for name in names:
        text = (site / "gallery" / f"position-{name}.html").read_text(encoding="utf-8")
        assert f"relpos pretrain position={name}" in re.sub("<[^>]+>", "", text)
        for picture in re.findall(r'src="([\w-]+\.png)"', text):
            assert (site / "gallery" / picture).is_file(), picture
    assert len(list((site / "gallery").glob("*-small.png"))) > len(names) - 4  # some add nothing to a score
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


def test_no_page_scrolls_sideways_on_a_telephone(site: Path, pages: dict[Path, Page], browser: Any) -> None:
    # Of pages that are made by a pattern some: those of schemes, of files of the source and of the reference.
    made = {page for kind in ("gallery", "source", "reference") for page in site.glob(f"{kind}/**/*.html")}
    shown = sorted(pages.keys() - made) + sorted(made)[::8]
    wide = {}
    page = browser.new_page(viewport={"width": 400, "height": 800})
    for file in shown:
        page.goto(file.as_uri(), timeout=400_000.0)
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if over > 0:
            wide[file.name] = over
    assert wide == {}


def test_the_search_finds_pages_without_a_server(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(400_000.0)
    elsewhere: list[str] = []
    page.on("request", lambda request: None if request.url.startswith("file:") else elsewhere.append(request.url))
    page.goto((site / "gallery" / "conv-canon.html").as_uri())
    page.locator("input.md-search__input").click()
    page.wait_for_function("document.querySelector('.md-search-result__meta').textContent.includes('start searching')")
    page.locator("input.md-search__input").press_sequentially("kerple")
    page.locator(".md-search-result__item a").first.wait_for(state="attached")
    links = [link.get_attribute("href") for link in page.locator(".md-search-result__item a").all()]
    assert any("gallery/position-kerple.html" in link for link in links)
    assert elsewhere == []

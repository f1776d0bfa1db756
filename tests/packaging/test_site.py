"""The site that `make site` makes: no dead link, nothing from elsewhere, and as wide as a
telephone's screen."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
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
        values = {name: value for name, value in attributes if value}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        self.links += [values[name] for name in ("href", "src") if name in values]
        self.loaded += [values[name] for name in ("src", "href") if name in values and tag != "a"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (make .venv/.site)")
    folder = tmp_path_factory.mktemp("site") / "built"
    command, environment = (
        [sys.executable, "-c", BUILD, str(folder)],
        os.environ | {"OMP_NUM_THREADS": "1"},
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_no_link_is_dead(pages):
    dead = []
    for path, page in pages.items():
        for link in page.links if path.name != "404.html" else ():
            if re.match(r"[a-z][a-z0-9+.-]*:|//", link):
                continue
            file, _, anchor = link.partition("#")
            there = (path.parent / unquote(file)).resolve() if file else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists() or (
                anchor and there in pages and unquote(anchor) not in pages[there].places
            ):
                dead.append(f"{path.name}: {link}")
    assert dead == []


def test_a_list_in_a_list_stays_in_it(site):
    findings, mechanisms = (
        (site / "docs" / f"{name}.html").read_text(encoding="utf-8")
        for name in ("findings", "mechanisms")
    )
    assert re.search(r"<ol>((?!</ol>).)*<ul>", findings, re.DOTALL)
    assert re.search(r"position=absolute</code>\s*<ul>", mechanisms)


def test_nothing_is_loaded_from_elsewhere(pages):
    assert {
        address
        for page in pages.values()
        for address in page.loaded
        if re.match(r"[a-z]+:|//", address)
    } <= {"data:,"}

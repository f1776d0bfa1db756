"""Makes the site: the project's Markdown, pages that are generated from code and data, the API
reference; offline.

    python docs/site/build.py [FOLDER]      by default build/site; SITE_URL=https://… where it is to be served

The pages keep their places in the repository, so that their links stay right. A link to a source
file leads to its page in the reference, or to a page that shows the file.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from multiprocessing import get_context
from pathlib import Path
from posixpath import relpath

from mkdocs.commands.build import build
from mkdocs.config import load_config

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Before torch is imported: a process forked from one that has computed with several threads waits
# for them forever.
os.environ["OMP_NUM_THREADS"] = "1"
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "tests" / "packaging")]

import pages  # noqa: E402
from links import CODE, ELSEWHERE, FENCE, LINK  # noqa: E402

from relpos.runs.table_file import FILE, read_table  # noqa: E402
from relpos.tables.render.html import write_html  # noqa: E402
from relpos.tables.render.view import view_of  # noqa: E402
from relpos.tables.table import Table  # noqa: E402

STAGED = ROOT / "build" / "pages"
PICTURES = (".png", ".svg")
NESTED = re.compile(r"^ {2,3}- ", re.MULTILINE)
"""An item of a list in a list; Python-Markdown wants four spaces before it, or one list is made."""
SORTED = "sorted.html"
"""The page of a table beside its Markdown, which the site turns into `table.html`."""
GUIDE = ("commands", "tables", "measuring", "checkpoints", "attention", "lightning")
GUIDE_PAGES = {*(f"docs/{name}.md" for name in GUIDE), "docs/findings.md"}
FINDINGS = ("docs/findings.md", "docs/claims.md", "docs/performance.md", "experiments/LOG.md")
PROJECT = ("docs/architecture.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


def main() -> int:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    shutil.rmtree(STAGED, ignore_errors=True)
    for name in ("look.css", "look.js", "iframe-worker.js"):
        place(name, (HERE / name).read_text(encoding="utf-8"))
    staged = Staged()
    place(
        "README.md",
        pages.home(staged.linked("README.md", (ROOT / "README.md").read_text(encoding="utf-8"))),
    )
    staged.done.add("README.md")
    for page in sorted(
        {
            *PROJECT,
            *FINDINGS,
            *(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
        }
    ):
        staged.page(page)
    patterns = pages.patterns()
    drawing = get_context("fork").Process(
        target=pages.draw, args=(patterns, STAGED.with_name("pictures"))
    )
    drawing.start()  # beside the rest, which takes as long
    for path, text in {**pages.gallery(patterns), **pages.reference()}.items():
        place(path, staged.linked(path, text))
    # The page for addresses that are not there is shown at any depth, and so needs to know where
    # the site lies.
    address = os.environ.get("SITE_URL", "")
    config = load_config(
        str(HERE / "mkdocs.yml"),
        docs_dir=str(STAGED),
        site_dir=str(target),
        nav=nav(),
        site_url=address,
    )
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    drawing.join()
    shutil.copytree(STAGED.with_name("pictures"), target / "gallery", dirs_exist_ok=True)
    print(f"{target}/index.html")
    return 0


def nav() -> list[dict[str, object]]:
    """The pages in the order of the site."""
    tutorials = [
        str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    ]
    guide: list[object] = [f"docs/{name}.md" for name in GUIDE]
    return [
        {"Home": "README.md"},
        {"Guide": [*({"Tutorials": tutorials} for _ in tutorials[:1]), *guide]},
        {
            "Mechanisms": [
                "gallery/index.md",
                {"Formulas and cost": "docs/mechanisms.md"},
                *pages.gallery_nav(),
            ]
        },
        {"Findings": list(FINDINGS)},
        {"Reference": pages.reference_nav()},
        {"Project": list(PROJECT)},
    ]


def place(path: str, text: str) -> None:
    """Writes a page."""
    file = STAGED / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


class Staged:
    """The pages that have been put into their places, with what they link to."""

    def __init__(self) -> None:
        self.done: set[str] = set()

    def page(self, path: str) -> None:
        """A Markdown file of the repository, and all that it links to."""
        if path in self.done:
            return
        self.done.add(path)
        # A search finds the guide before the log, which has more of every word.
        front = "---\nsearch:\n  boost: 4\n---\n\n" if path in GUIDE_PAGES else ""
        text = self.linked(path, (ROOT / path).read_text(encoding="utf-8"))
        fences = [match.span() for match in FENCE.finditer(text)]

        def indented(match: re.Match[str]) -> str:
            in_code = any(start <= match.start() < end for start, end in fences)
            return match[0] if in_code else "    - "

        text = NESTED.sub(indented, text)
        folder = Path(path).parent
        if Path(path).name == "table.md" and (ROOT / folder / FILE).is_file():
            (STAGED / folder).mkdir(parents=True, exist_ok=True)
            write_html(STAGED / folder / SORTED, view_of(read_table(ROOT / folder, Table)))
            text += f"\n[The same table, sorted by a click, with figures and runs]({SORTED})\n"
        place(path, front + text)

    def linked(self, path: str, text: str) -> str:
        """The text of a page with links to the pages that show what it links to."""
        hidden = [match.span() for pattern in (FENCE, CODE) for match in pattern.finditer(text)]

        def link(match: re.Match[str]) -> str:
            target, inside = match[1], any(start <= match.start() < end for start, end in hidden)
            file, _, anchor = target.partition("#")
            there = ROOT.joinpath(path).parent.joinpath(file).resolve()
            if inside or not file or ELSEWHERE.match(target) or not there.exists():
                return match[0]
            new = relpath(
                self.served(there.relative_to(ROOT).as_posix()), Path(path).parent.as_posix()
            )
            return match[0].replace(f"({target}", f"({new}{'#' * bool(anchor)}{anchor}")

        return LINK.sub(link, text)

    def served(self, path: str) -> str:
        """The page that shows a file or a folder of the repository."""
        file = ROOT / path
        if path.startswith("src/relpos") and (file.is_dir() or file.suffix == ".py"):
            return pages.reference_page(path)
        if file.suffix == ".md":
            self.page(path)
            return path
        if file.suffix in PICTURES:
            (STAGED / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, STAGED / path)
            return path
        shown = f"source/{path}.md"
        if path not in self.done:
            self.done.add(path)
            place(shown, pages.folder(path) if file.is_dir() else pages.source(path))
        return shown


if __name__ == "__main__":
    sys.exit(main())

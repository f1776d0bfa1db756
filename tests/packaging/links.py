"""Relative links in the repository's Markdown: every one names a file that exists and, behind `#`,
a heading in it.

`python tests/packaging/links.py` prints what is broken and exits with 1; `make check` calls it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")


def pages(root: Path = ROOT) -> list[Path]:
    """All Markdown files of the project, not those of its environment or of its runs."""
    folders = ("docs", "experiments", "benchmarks", "tests", "src", "conf")
    return sorted(
        [
            *root.glob("*.md"),
            *(page for folder in folders for page in (root / folder).rglob("*.md")),
        ]
    )


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them: lower case, spaces to hyphens, punctuation
    dropped."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+\s+(.*?)\s*#*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> Iterator[str]:
    """One line for each link of `page` that leads nowhere; links with a scheme (https:) are not
    followed."""
    text = CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    for target in LINK.findall(text):
        if ELSEWHERE.match(target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists():
            yield f"{page}: no file {target}"
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            yield f"{page}: no heading {target}"


def main() -> int:
    paths = pages()
    lines = [line for page in paths for line in broken(page)]
    print("\n".join(lines) if lines else f"links: {len(paths)} pages, none broken", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

"""`make claims`: docs/claims.md, from the claims' files and the records of the committed tables."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "experiments" / "results"
PAGE = DOCS / "claims.md"
PAPERS = {"C": "Chang et al. 2021", "W": "Wennberg & Henter 2021", "X": "Across both, and our own"}
MEASURES = {"loss": "held-out loss", "order": "shuffle gap"}
HEAD = """# Claims

What the two papers claim and what we claim ourselves, the rule that decides each claim, and what the finished runs say
of it. `make claims` writes this page from [experiments/claims](../experiments/claims) and from the records of the
committed tables (`experiments/results/*/records.tar.xz`). Claims about weights, which are not committed, are decided
from what `relpos order measure=[toeplitz,kernels,patterns]` has kept in these records; where nothing is kept, they are
not run here and stand in [findings](findings.md). A verdict is that of one *scale*, which is named beside it, in the
measure that the paper uses (GLUE, weights, counts) unless another is named. *On the plateau* is a row that has not left
the [bag-of-words plateau](tables.md#the-plateau). Intervals are 95 %, over pre-training seeds.
In nats, a difference below 0.02 of loss or 0.05 of shuffle gap counts as none.
"""


def verdicts(folder: Path) -> list[dict[str, Any]]:
    """The claims as `relpos claims` writes them, of all committed records together.

    Args:
        folder: empty; gets the runs.
    """
    environment = os.environ | {"RELPOS_RUNS": str(folder / "runs"), "PYTHONPATH": str(DOCS.parent / "src")}
    for archive in sorted(RESULTS.glob("*/records.tar.xz")):
        (records := folder / archive.parent.name).mkdir()
        subprocess.run(["tar", "-x", "-f", archive, "-C", records], check=True)
        subprocess.run(
            [sys.executable, "-m", "relpos.cli", "merge", records], env=environment, check=True, stdout=subprocess.DEVNULL
        )
    command = [sys.executable, "-m", "relpos.cli", "claims"]
    said = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    claims: list[dict[str, Any]] = json.loads(Path(said.splitlines()[-1]).read_text(encoding="utf-8"))["claims"]
    return claims


def page(claims: Iterable[dict[str, Any]]) -> str:
    """The page in Markdown."""
    by_claim: dict[str, list[dict[str, Any]]] = {}
    for claim in claims:
        by_claim.setdefault(claim["id"].partition("/")[0], []).append(claim)
    lines = [HEAD, *_at_a_glance(by_claim.values())]
    for letter, paper in PAPERS.items():
        lines += [f"## {paper}", ""]
        for name, variants in by_claim.items():
            if name.startswith(letter):
                lines += _entry(variants)
    return "\n".join(lines).rstrip() + "\n"


def _at_a_glance(claims: Iterable[list[dict[str, Any]]]) -> list[str]:
    """A table of headlines: a row for each claim with some verdict, a column for each measure."""
    columns = ["the paper's measure", *MEASURES.values()]
    lines = ["## At a glance", "", f"| | claim | {' | '.join(columns)} |", "|---|---|---|---|---|"]
    for variants in claims:
        heads = {claim["id"].partition("/")[2]: claim for claim in variants}
        cells = [_headline(heads[measure]) if measure in heads else "" for measure in ("", *MEASURES)]
        if any(cells):
            name = variants[0]["id"]
            lines.append(f"| [{name}](#{name.lower()}) | {_capital(variants[0]['says'])} | {' | '.join(cells)} |")
    return [*lines, ""]


def _headline(claim: dict[str, Any]) -> str:
    """`**holds**, 4×128, 1,000 steps of 16, files (87c81d)`; empty if it was not run."""
    return "" if claim["verdict"] == "not run" else f"**{claim['word']}**, {claim['scale']}"


def _entry(variants: list[dict[str, Any]]) -> list[str]:
    claim = variants[0]
    printed = f" Printed: {claim['printed']}." if claim["printed"] else ""
    restated = f" Restated: {claim['restated']}." if claim["restated"] else ""
    lines = [f"### {claim['id']}", "", f"{_capital(claim['says'])}. ({claim['source']}.){printed}", ""]
    lines += [f"Rule: {claim['test']}.{restated}", ""]
    said = [line for variant in variants for line in _findings(variant)]
    return [*lines, *(said or ["- Not run."]), ""]


def _findings(claim: dict[str, Any]) -> list[str]:
    measure = MEASURES.get(claim["id"].partition("/")[2], "")
    lines = []
    for finding in claim["findings"]:
        if finding["verdict"] == "not run":
            continue
        where = ", ".join(filter(None, [measure, finding["scale"]]))
        lines.append(f"- **{_capital(finding['word'])}** in {where}:")
        takes = [f"to decide it: {finding['takes']}"] if finding["takes"] else []
        # One figure a line, with what goes on about it behind a semicolon.
        figures = re.split("; (?!these pairs alone|below |p )", finding["figures"])
        lines += [f"  - {figure}" for figure in [*figures, *takes]]
    return lines


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(page(verdicts(Path(made))), encoding="utf-8")

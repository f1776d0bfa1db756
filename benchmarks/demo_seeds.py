"""Do the checks of the demo hold whatever the seed of its pre-trainings is?

    python benchmarks/demo_seeds.py [--seeds 5] [--table demo] [OVERRIDE…]

Runs `relpos reproduce table=demo pretrain.seed=N` for N = 0 … seeds − 1 and reports the verdict and the figures of every check. A
seed that was run before is found in $RELPOS_RUNS and not run again. Exits with 1 if a check does not hold. Writes
benchmarks/results/demo_seeds.json and demo_seeds.md.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from typing import Any

from _report import machine, write_results

from relpos.claims.verdict import HOLDS
from relpos.cli import main as relpos
from relpos.tables.table import Table, written


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", help="of the table: finetune.steps=100, …")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--table", default="demo")
    given = parser.parse_args()
    rows = []
    for seed in range(given.seeds):
        start = time.time()
        with contextlib.redirect_stdout(sys.stderr):  # the table; what is measured here goes into the results
            ended = relpos(["reproduce", f"table={given.table}", f"pretrain.seed={seed}", *given.overrides])
        if ended:
            return ended
        rows += of_seed(written(given.table)[1], seed, time.time() - start)
    every = all(row["verdict"] == HOLDS for row in rows)
    facts = {
        "machine": machine(),
        "table": given.table,
        "overrides": " ".join(given.overrides) or "none",
        "every check holds": every,
    }
    write_results("demo_seeds", facts | {"rows": rows})
    return 0 if every else 1


def of_seed(table: Table, seed: int, seconds: float) -> list[dict[str, Any]]:
    """A row a check."""
    return [
        {
            "seed": seed,
            "check": outcome.says,
            "verdict": outcome.verdict,
            "figures": outcome.figures,
            "seconds of the seed": round(seconds),
        }
        for outcome in table.checks
    ]


if __name__ == "__main__":
    sys.exit(main())

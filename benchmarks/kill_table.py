"""kill -9 of a table's launcher and of its runs at random moments, then the same command: the same
table, nothing done twice?

    python benchmarks/kill_table.py [--kills 5] [OVERRIDE …]     writes benchmarks/results/kill_table.{json,md}

Overrides are those of `relpos reproduce`, by default `table=demo`. The table is made once without
interruption; then once more in another folder, where the launcher is killed so many times and a
worker so many times, in turn, and the command is given again after each. Moments are drawn from the
time that the uninterrupted table took, so that they fall into all of its stages: a kill comes when
as many runs are finished as were at that moment, and as long after the last of them. In a third
folder the command is given twice at once. It passes when all tables say the same, no run that was
finished at a kill has been started again, and with two launchers none has been started twice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from pathlib import Path
from typing import Any

from _report import machine, write_results

KEYS = ("name", "parameters", "perplexity", "columns", "mean", "heldout_loss")


def start(overrides: list[str], root: Path) -> subprocess.Popen[bytes]:
    """The command, as a process of its own."""
    environment = os.environ | {"RELPOS_RUNS": str(root)}
    command = [sys.executable, "-m", "relpos.cli", "reproduce", *overrides]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def finish(overrides: list[str], root: Path) -> list[float]:
    """Runs the command to its end; after how many seconds each run was finished, and at last the
    command."""
    began = time.monotonic()
    process = start(overrides, root)
    seconds: list[float] = []
    while process.poll() is None:
        seconds += [time.monotonic() - began] * (len(starts(root)) - len(seconds))
        time.sleep(0.2)
    if process.returncode:
        sys.exit(process.returncode)
    return [*seconds, time.monotonic() - began]


def table(root: Path) -> list[dict[str, Any]]:
    """The rows as written."""
    content = json.loads(next(root.glob("tables/*/table.json")).read_text(encoding="utf-8"))
    return [{key: row[key] for key in KEYS} for row in content["rows"]]


def records(root: Path) -> list[dict[str, Any]]:
    """Of all runs that were ever begun."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in root.glob("*/*/record.json")]


def starts(root: Path) -> dict[str, int]:
    """Identity → number of starts, of the finished runs."""
    return {
        record["identity"]: len(record["starts"])
        for record in records(root)
        if record["state"] == "finished"
    }


def children(pid: int) -> list[int]:
    """Processes that `pid` has started."""
    return [
        int(word)
        for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    ]


def trial(overrides: list[str], root: Path, victim: str, runs: int, later: float) -> dict[str, Any]:
    """One kill, `later` seconds after so many runs are finished and the command is under way again;
    a killed worker's launcher is stopped as well afterwards, so that every trial gives the command
    again.
    """
    process = start(overrides, root)
    while process.poll() is None and not (len(starts(root)) >= runs and children(process.pid)):
        time.sleep(0.05)
    deadline = time.monotonic() + later
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    ended = process.poll() is not None
    workers = [] if ended else children(process.pid)
    done = starts(root)
    doing = sorted({record["stage"] for record in records(root) if record["state"] == "running"})
    if victim == "run" and workers:
        os.kill(random.choice(workers), 9)
        time.sleep(1.0)  # the launcher may have begun another worker
    process.kill()
    process.communicate()
    return {
        "killed": victim,
        "runs finished": len(done),
        "seconds after the last": round(later, 1),
        "under way": ", ".join(doing),
        "it had ended": ended,
        "_done": done,
    }


def main() -> int:
    """All kills, then the comparison."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("overrides", nargs="*", default=["table=demo"])
    given = parser.parse_args()
    random.seed(given.seed)
    with tempfile.TemporaryDirectory() as name:
        whole, killed, shared = (Path(name) / run for run in ("whole", "killed", "shared"))
        *finished, seconds = finish(given.overrides, whole)
        rows = []
        for number, moment in enumerate(
            sorted(random.uniform(0, seconds) for _ in range(2 * given.kills))
        ):
            runs = bisect(finished, moment)
            later = moment - max([0.0, *finished[:runs]])
            rows.append(
                trial(given.overrides, killed, ("launcher", "run")[number % 2], runs, later)
            )
            print(
                {key: value for key, value in rows[-1].items() if key != "_done"}, file=sys.stderr
            )
        finish(given.overrides, killed)
        after = starts(killed)
        for row in rows:
            done = row.pop("_done")
            row["of these started again"] = sum(
                after[identity] != count for identity, count in done.items()
            )
        both = [start(given.overrides, shared) for _ in range(2)]
        ended = [run.wait() for run in both]
        same, alike = (table(whole) == table(other) for other in (killed, shared))
        most, twice = (max(starts(root).values()) for root in (killed, shared))
    passed = (
        same
        and alike
        and twice == 1
        and not any(ended)
        and not any(row["of these started again"] for row in rows)
    )
    facts = {
        "machine": machine(),
        "overrides": " ".join(given.overrides),
        "seconds uninterrupted": round(seconds, 1),
    }
    facts |= {"table after the kills equal": same, "most starts of a run": most}
    facts |= {
        "table of two launchers equal": alike,
        "most starts with two launchers": twice,
        "passed": passed,
    }
    write_results("kill_table", facts | {"rows": rows})
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

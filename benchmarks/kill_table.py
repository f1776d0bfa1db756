"""kill -9 of a table's launcher and of its runs at random moments, then the same command: the same table, nothing done twice?

    python benchmarks/kill_table.py [--kills 5] [WORD …]     writes benchmarks/results/kill_table.{json,md}

Words are those of `relpos reproduce`, by default `table=demo`. The table is made once without interruption; then once more in
another folder, where the launcher is killed so many times and a worker so many times, in turn, each at a random moment, and the
command is given again after each. It passes when both tables say the same and no run that was finished at a kill has been started
again.
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
from pathlib import Path
from typing import Any

from _report import machine, write_results

KEYS = ("name", "parameters", "perplexity", "columns", "mean", "heldout_loss")


def start(words: list[str], root: Path) -> subprocess.Popen[bytes]:
    """The command, as a process of its own."""
    environment = os.environ | {"RELPOS_RUNS": str(root)}
    command = [sys.executable, "-m", "relpos.cli", "reproduce", *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(words: list[str], root: Path) -> float:
    """Runs the command to its end; the seconds it took."""
    began = time.monotonic()
    process = start(words, root)
    _, said = process.communicate()
    if process.returncode:
        sys.exit(said.decode())
    return time.monotonic() - began


def table(root: Path) -> list[dict[str, Any]]:
    """The rows as written."""
    content = json.loads(next(root.glob("tables/*/table.json")).read_text(encoding="utf-8"))
    return [{key: row[key] for key in KEYS} for row in content["rows"]]


def records(root: Path) -> list[dict[str, Any]]:
    """Of all runs that were ever begun."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in root.glob("*/*/record.json")]


def starts(root: Path) -> dict[str, int]:
    """Identity → number of starts, of the finished runs."""
    return {record["identity"]: len(record["starts"]) for record in records(root) if record["state"] == "finished"}


def children(pid: int) -> list[int]:
    """Processes that `pid` has started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]


def trial(words: list[str], root: Path, victim: str, wait: float) -> dict[str, Any]:
    """One kill; a killed worker's launcher is stopped as well afterwards, so that every trial gives the command again."""
    process = start(words, root)
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    ended = process.poll() is not None
    workers = [] if ended else children(process.pid)
    done = starts(root)
    if victim == "run" and workers:
        os.kill(random.choice(workers), 9)
        time.sleep(1.0)  # the launcher may have begun another worker
    process.kill()
    process.communicate()
    return {
        "killed": victim,
        "after seconds": round(wait, 1),
        "it had ended": ended,
        "runs finished before": len(done),
        "_done": done,
    }


def main() -> int:
    """All kills, then the comparison."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("words", nargs="*", default=["table=demo"])
    given = parser.parse_args()
    random.seed(given.seed)
    with tempfile.TemporaryDirectory() as name:
        whole, killed = Path(name) / "whole", Path(name) / "killed"
        seconds = finish(given.words, whole)
        rows = []
        for number in range(2 * given.kills):
            wait = random.uniform(0.5, max(8.0, seconds / given.kills / 1.5))
            rows.append(trial(given.words, killed, ("launcher", "run")[number % 2], wait))
            print({key: value for key, value in rows[-1].items() if key != "_done"}, file=sys.stderr)
        finish(given.words, killed)
        after = starts(killed)
        for row in rows:
            done = row.pop("_done")
            row["of these started again"] = sum(after[identity] != count for identity, count in done.items())
        same = table(whole) == table(killed)
        most = max(after.values())
    passed = same and not any(row["of these started again"] for row in rows)
    facts = {"machine": machine(), "words": " ".join(given.words), "seconds uninterrupted": round(seconds, 1)}
    write_results("kill_table", facts | {"tables equal": same, "most starts of a run": most, "passed": passed, "rows": rows})
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

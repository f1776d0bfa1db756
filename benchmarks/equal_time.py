"""The rows of a table at equal time instead of equal steps: python benchmarks/equal_time.py FOLDER

FOLDER is an unpacked experiments/results/*/records.tar.xz. A row whose step takes r times as long
as that of `none` by benchmarks/results/step_presets.json gets steps / r; its held-out loss there
lies on the line between the two evaluations around it. Rows of one mechanism alone, since only
these have a measured step. Writes benchmarks/results/equal_time.md.

The learning rate decays to the end of the steps asked for, so that a loss before the end is that of
a training cut short: a slower row looks a little worse here than one that had been given fewer
steps from the start.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean

import numpy as np

RESULTS = Path(__file__).parent / "results"
NAMES = {
    "depthwise": "conv=depthwise",
    "conv_qk": "conv=qk",
    "conv_qkv": "conv=qkv",
    "conv_value": "conv=value",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    text = report(losses(asked.folder, costs()))
    (RESULTS / "equal_time.md").write_text(text, encoding="utf-8")
    print(text)


def costs() -> dict[str, float]:
    """Time of a step with each preset over that with `none`."""
    presets = json.loads((RESULTS / "step_presets.json").read_text(encoding="utf-8"))["presets"]
    return {"position=none": 1.0} | {name: preset["time"] for name, preset in presets.items()}


def preset(run: str) -> str:
    """Of a run's folder: `position=NAME`, or `conv=NAME` where the network has no positions; "" for
    two mechanisms."""
    position, _, conv = run.partition("-4x")[0].partition("-")
    if not conv:
        return f"position={position}"
    return NAMES.get(conv, "") if position == "none" else ""


def losses(folder: Path, cost: dict[str, float]) -> list[tuple[str, float, float, float]]:
    """(row, cost, mean held-out loss at equal steps, the same at equal time), best first at equal
    time."""
    curves: dict[str, dict[int, list[tuple[int, float]]]] = defaultdict(dict)
    for path in sorted(folder.glob("pretrain/*/metrics.jsonl")):
        row, seed = (
            preset(path.parent.name),
            json.loads(path.with_name("record.json").read_text("utf-8"))["meaning"]["seed"],
        )
        if row in cost and "-4x128-" in path.parent.name:
            lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
            curves[row][seed] = [
                (line["step"], line["heldout_loss"]) for line in lines if "heldout_loss" in line
            ]
    rows = []
    for row, by_seed in curves.items():
        at_equal_steps = mean(curve[-1][1] for curve in by_seed.values())
        at_equal_time = mean(
            float(np.interp(curve[-1][0] / cost[row], *np.transpose(curve)))
            for curve in by_seed.values()
        )
        rows.append((row, cost[row], at_equal_steps, at_equal_time))
    return sorted(rows, key=lambda entry: entry[3])


def report(rows: list[tuple[str, float, float, float]]) -> str:
    at_steps = sorted(rows, key=lambda entry: entry[2])
    lines = [
        "# Held-out loss at equal steps and at equal time",
        "",
        "| row | time of a step | at equal steps | rank | at equal time |",
    ]
    lines.append("|---|---:|---:|---:|---:|")
    lines += [
        f"| `{row}` | {cost:.3f} | {steps:.3f} | {at_steps.index((row, cost, steps, time)) + 1} | "
        f"{time:.3f} |"
        for row, cost, steps, time in rows
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

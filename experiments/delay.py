"""How much later a table of positions reaches each held-out loss than biases over offsets do:
python experiments/delay.py FOLDER

FOLDER holds experiments/results/when_order/records.tar.xz, unpacked. Losses count while the rate is
constant. Between two evaluations a loss is reached along a straight line over updates. Prints the
delays of docs/findings.md, and writes into experiments/results/when_order

    delay.csv   loss, seed, updates of `absolute` and of `fixed` until it stays below, the difference
    delay.png   the losses along training, and the delay by loss
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

RESULTS = Path(__file__).parent / "results" / "when_order"
LOSSES = np.round(np.arange(5.6, 4.04, -0.05), 2)
"""From below what the row `none` reaches to the lowest loss of `absolute` at the full rate."""
CITED = [5.6, 5.0, 4.4, 4.05]
"""Losses whose delays docs/findings.md has."""
LINES = {"none": "0.45", "absolute": "C3", "fixed": "C0", "rope": "C2"}
"""Row → its colour; all other rows are in the grey band."""
UPDATES = np.geomspace(250, 25_600, 400)


def curves(folder: Path) -> dict[str, dict[int, pd.Series]]:
    """Row → seed → held-out loss by update at the full rate, of the longest training."""
    rows: dict[str, dict[int, pd.Series]] = {}
    for path in sorted(folder.glob("pretrain/*/record.json")):
        meaning = json.loads(path.read_text(encoding="utf-8"))["meaning"]
        constant = (1 - meaning["recipe"]["decay"]) * meaning["steps"]
        lines = (path.parent / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        losses = {
            line["step"]: line["heldout_loss"]
            for line in map(json.loads, lines)
            if "heldout_loss" in line and line["step"] <= constant
        }
        of_row = rows.setdefault(path.parent.name.partition("-4x128")[0], {})
        seed = meaning["seed"]
        if len(losses) > len(of_row.get(seed, ())):
            of_row[seed] = pd.Series(losses).sort_index()
    return rows


def reached(losses: pd.Series, loss: float) -> float:
    """The update from which on `losses` stay below `loss`; NaN where they do not at the end.

    >>> reached(pd.Series({10: 5.0, 20: 4.0}), 4.5)
    15.0
    """
    updates, values = losses.index.to_numpy(), losses.to_numpy()
    last = int(np.flatnonzero(values >= loss).max(initial=0))
    if last == len(values) - 1:
        return float("nan")
    return float(np.interp(-loss, -values[last : last + 2], updates[last : last + 2]))


def delays(rows: dict[str, dict[int, pd.Series]]) -> pd.DataFrame:
    """A line for each loss and seed."""
    lines = [
        {"loss": loss, "seed": seed}
        | {row: reached(rows[row][seed], loss) for row in ("absolute", "fixed")}
        for loss in LOSSES
        for seed in sorted(rows["absolute"])
    ]
    return pd.DataFrame(lines).eval("delay = absolute - fixed")


def draw(rows: dict[str, dict[int, pd.Series]], table: pd.DataFrame, to: Path) -> None:
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 3.6), width_ratios=[3, 2], layout="constrained"
    )
    draw_losses(left, rows)
    for seed, of_seed in table.groupby("seed"):
        right.plot(of_seed["loss"], of_seed["delay"], "C3", marker=".", label=f"seed {seed}")
    right.invert_xaxis()
    right.set_ylim(0)
    right.set_xlabel("until this held-out loss")
    right.set_title("updates of `absolute` − updates of `fixed`", fontsize=10)
    right.grid(alpha=0.3)
    figure.savefig(to, dpi=120)


def draw_losses(axes: Axes, rows: dict[str, dict[int, pd.Series]]) -> None:
    """Four rows, each a band over its seeds, and in grey the range of all others."""
    others = [of_row for row, of_row in rows.items() if row not in LINES]
    fill(axes, [curve for of_row in others for curve in of_row.values()], "0.8", alpha=1.0)
    axes.text(1_150, 4.35, "biases, kernels\nand convolutions", color="0.5", ha="right", fontsize=9)
    for row, color in LINES.items():
        seeds = list(rows[row].values())
        fill(axes, seeds, color, alpha=0.3)
        mean = np.mean([on_grid(curve) for curve in seeds], axis=0)
        axes.plot(UPDATES, mean, color=color)
    for row, (update, loss) in {
        "none": (6_500, 6.13),
        "absolute": (5_000, 5.6),
        "fixed": (15_500, 3.62),
        "rope": (620, 5.75),
    }.items():
        axes.text(update, loss, row, color=LINES[row], fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(250, 26_000)
    axes.set_ylim(3.4, 6.7)
    axes.set_xlabel("updates of 16 pairs")
    axes.set_title("held-out loss, at a constant rate", fontsize=10)
    axes.grid(alpha=0.3)


def fill(axes: Axes, seeds: list[pd.Series], color: str, alpha: float) -> None:
    """The range of trainings, as far as all of them go."""
    values = [on_grid(curve) for curve in seeds]
    lowest, highest = np.min(values, axis=0), np.max(values, axis=0)
    axes.fill_between(UPDATES, lowest, highest, color=color, alpha=alpha, linewidth=0)


def on_grid(curve: pd.Series) -> np.ndarray:
    """The losses at `UPDATES`; NaN behind the last evaluation."""
    return np.interp(UPDATES, curve.index, curve, right=np.nan)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows = curves(Path(sys.argv[1]))
    table = delays(rows)
    table.to_csv(RESULTS / "delay.csv", index=False, float_format="%.2f")
    draw(rows, table, RESULTS / "delay.png")
    print(table[table["loss"].isin(CITED)].groupby("loss").mean().round(0).to_string())


if __name__ == "__main__":
    main()

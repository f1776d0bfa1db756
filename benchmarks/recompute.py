"""The intervals of claims.txt, computed anew without relpos: python benchmarks/recompute.py FOLDER
[loss|order|glue|glue:COLUMN,COLUMN…|COLUMN]

FOLDER is an unpacked experiments/results/*/records.tar.xz, or several. Each line is a pair of rows
of one scale: the difference in held-out loss, in shuffle gap, in the mean of GLUE's columns or of
those named, or in one of these (then all pre-trainings of FOLDER are one scale, as in a table,
those of no steps too), its 95 % interval with moderated variances (Smyth 2004), and that of these pairs of seeds alone.
Rows that share one seed at most are compared by Welch's formula, and two single runs with the same
seed by what other pairs show. A row that knows less than nine tenths of the order (by its loss,
between that of `none` and the lowest) stands apart in loss and gap, with the variance of its own
pairs. Every run counts; claims leave out pilots (seeds from 100) and rows that no claim names,
which are to be deleted from FOLDER first.
"""

import json
import re
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, polygamma
from scipy.stats import t

Floats = NDArray[np.float64]
NONE = re.compile(r"none-\d+x\d+(-causal)?-")  # the folder of a row without positions
measure, _, named = sys.argv[2].partition(":") if len(sys.argv) > 2 else ("loss", "", "")
values: dict[tuple[str, str], dict[Any, dict[int, tuple[float, Path]]]] = defaultdict(
    lambda: defaultdict(dict)
)
gaps: dict[int, dict[Path, float]] = defaultdict(dict)
for path in sorted(Path(sys.argv[1], "pretrain").glob("*/record.json")):
    record = json.loads(path.read_text(encoding="utf-8"))
    meaning = record["meaning"]
    position_lr, conv_lr = (
        meaning["recipe"].pop(key, none) for key, none in (("position_lr", 1.0), ("conv_lr", None))
    )
    rates = conv_lr is not None, -np.min(position_lr), -(conv_lr or 0)
    dials = (
        str(meaning["conv"][dial])
        for dial in ("kernel_from", "fraction")
        if dial in meaning["conv"]
    )
    row = " ".join([path.parent.name.rpartition("-seed")[0], *dials])
    scale = json.dumps(
        [meaning | dict.fromkeys(("seed", "position", "conv", "sources")), record["inputs"]],
        sort_keys=True,
    )
    if measure not in ("loss", "order", "glue"):
        scale, row = "", row + " not pre-trained" * (meaning["steps"] == 0)
    values[scale, row][rates][meaning["seed"]] = -record["metrics"]["heldout_loss"], path.parent
    for file in Path(sys.argv[1], "order").glob(f"shuffle-{path.parent.name}-*/record.json"):
        kept = json.loads(file.read_text(encoding="utf-8"))
        if "share" not in kept["meaning"]:
            results = json.loads(file.with_name("results.json").read_text(encoding="utf-8"))
            gaps[kept["meaning"]["examples"]][path.parent] = results["shuffle_gap"]["all"]
tuned: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
for path in sorted(Path(sys.argv[1], "finetune").glob("*/record.json")):
    record = json.loads(path.read_text(encoding="utf-8"))
    start = Path(record["inputs"].get("start", "")).name
    tuned[start][record["meaning"]["seed"]] |= record["metrics"]["columns"]


def score(run: Path) -> float | None:
    """The mean over a pre-training's fine-tuning seeds of the mean of their columns, or of one."""
    wanted = named.split(",") if named else [measure]
    scores = [
        [value for name, value in columns.items() if "glue" in wanted or name in wanted]
        for columns in tuned[run.name].values()
    ]
    means = [np.mean(of_seed) for of_seed in scores if of_seed]
    return float(np.mean(means)) if means else None


# of each scale the gaps on as many examples as most of its networks were measured on
ways: dict[str, dict[Path, float]] = {}
for scale in {scale for scale, _ in values}:
    networks = {
        at
        for (own, _), by_rate in values.items()
        if own == scale
        for runs in by_rate.values()
        for _, at in runs.values()
    }
    of_scale = {
        examples: {at: gaps_at[at] for at in networks & gaps_at.keys()}
        for examples, gaps_at in gaps.items()
    }
    ways[scale] = (
        max(of_scale.items(), key=lambda item: (len(item[1]), item[0]))[1] if of_scale else {}
    )
scales: dict[str, dict[str, dict[int, float]]] = defaultdict(dict)
gains: dict[str, dict[str, float]] = defaultdict(dict)  # scale, row → minus the mean loss
# of several learning rates, the one with most seeds; of equally many, the lowest
for (scale, row), by_rate in values.items():
    chosen = max(by_rate.items(), key=lambda item: (len(item[1]), item[0]))[1]
    by_seed = {
        seed: {"loss": loss, "order": ways[scale].get(at)}.get(measure, score(at))
        for seed, (loss, at) in chosen.items()
    }
    if measured := {seed: value for seed, value in by_seed.items() if value is not None}:
        scales[scale][row] = measured
    gains[scale][row] = float(np.mean([loss for loss, _ in chosen.values()]))


def moments(variances: Floats, f: Floats) -> tuple[float, float]:
    """Smyth's d0 and s0² of variances with f degrees of freedom; where they differ no more than by
    chance, d0 is large."""
    logs = (
        np.log(np.maximum(variances, 1e-5 * np.median(variances))) - digamma(f / 2) + np.log(f / 2)
    )
    # trigamma(d0 / 2)
    excess = logs.var(ddof=1) - polygamma(1, f / 2).mean() if len(logs) > 1 else 0.0
    if excess <= 0:
        return 1e9, float((variances * f).sum() / f.sum())
    d0 = 2 * brentq(lambda x, above: polygamma(1, x) - above, 1e-6, 1e9, (excess,))
    return d0, float(np.exp(logs.mean() + digamma(d0 / 2) - np.log(d0 / 2)))


def say(pair: tuple[str, str], mean: float, error: float, freedom: float, more: str = "") -> None:
    wide = t.ppf(0.975, freedom) * error
    print(
        f"{pair[0]} − {pair[1]} {mean:+.3f} [{mean - wide:+.3f}, {mean + wide:+.3f}], "
        f"{freedom:.3g} degrees of freedom{more}"
    )


for scale, rows in scales.items():
    least = max((at for row, at in gains[scale].items() if NONE.match(row)), default=-np.inf)
    knowing = {
        row
        for row, at in gains[scale].items()
        if measure not in ("loss", "order")
        or np.isinf(least)
        or at - least >= 0.9 * (max(gains[scale].values()) - least)
    }
    pool = {
        row: seeds
        for row, seeds in rows.items()
        if row in knowing and len(seeds) > 1 and np.ptp(list(seeds.values())) > 1e-6
    }
    paired = {
        (a, b): np.array([rows[a][s] - rows[b][s] for s in sorted(rows[a].keys() & rows[b].keys())])
        for a, b in combinations(rows, 2)
    }
    inside = [diffs for pair, diffs in paired.items() if len(diffs) > 1 and set(pair) <= set(pool)]
    d0, s0, most = 0.0, 0.0, np.inf
    if len(inside) > 1:
        d0, s0 = moments(*np.array([[diffs.var(ddof=1) / 2, len(diffs) - 1] for diffs in inside]).T)
        most = sum(map(len, pool.values())) - len(pool) - len(set().union(*pool.values())) + 1
    for pair, diffs in paired.items():
        if len(diffs) < 2:
            continue
        n, own, prior = len(diffs), float(diffs.var(ddof=1)), d0 if set(pair) <= set(pool) else 0.0
        freedom, error = (
            min(prior + n - 1, most if prior else n - 1),
            ((prior * 2 * s0 + (n - 1) * own) / (prior + n - 1) / n) ** 0.5,
        )
        by = t.ppf(0.975, n - 1) * (own / n) ** 0.5
        say(
            pair,
            float(diffs.mean()),
            error,
            freedom,
            f"; these pairs alone [{diffs.mean() - by:+.3f}, {diffs.mean() + by:+.3f}]",
        )
    for pair, diffs in paired.items():
        # one run of each row, with the same seed
        if (
            d0
            and len(diffs) == 1
            and all(len(rows[row]) == 1 for row in pair)
            and set(pair) <= knowing
        ):
            say(pair, float(diffs[0]), (2 * s0) ** 0.5, min(d0, most))
    # One run of a row beside several of another: no pairs, and each row's own variance, moderated
    # by those of all rows.
    if pool:
        d0, s0 = moments(
            *np.array([[np.var(list(x.values()), ddof=1), len(x) - 1] for x in pool.values()]).T
        )
        most = sum(map(len, pool.values())) - len(pool)
    for pair in (
        pair
        for pair, diffs in paired.items()
        if len(diffs) < 2 and max(len(rows[row]) for row in pair) > len(diffs)
    ):
        cap = most if set(pair) <= knowing else np.inf
        parts = []
        for row in pair:
            units, prior = list(rows[row].values()), d0 if row in knowing else 0.0
            n, squares = len(units), float(np.var(units)) * len(units)
            if prior + n > 1:
                variance = (prior * s0 + squares) / (prior + n - 1) / n
                freedom = min(prior + n - 1, most if prior else n - 1)
                parts.append((float(np.mean(units)), variance, freedom))
        if len(parts) < 2:
            continue
        (first, v, f), (second, w, g) = parts
        say(pair, first - second, (v + w) ** 0.5, min((v + w) ** 2 / (v**2 / f + w**2 / g), cap))

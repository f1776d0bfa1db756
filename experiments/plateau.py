"""When trainings leave the bag-of-words plateau, and the law of it: python experiments/plateau.py
FOLDER

FOLDER is `$RELPOS_RUNS`, or where records.tar.xz of plateau_toy and of plateau_toy_arms were
unpacked. experiments/plateau_toy.yaml defines T and the law. Prints both, and writes beside the
committed table of plateau_toy

    exits.csv   row, seed, T in updates, whether the training was censored there
    law.json    the law's coefficients with 95 % intervals, and what it says of rows that it was not fitted on
                and of trainings on real text that are not ours
    law.png     T of each training beside what the law says of its row
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import norm
from statsmodels.base.model import GenericLikelihoodModel
from statsmodels.duration.survfunc import SurvfuncRight

LEAD = 0.1
"""Nats below the loss of `none` at which a row has left the plateau."""
FITTED = (
    "n64_b64",
    "pair_b64",
    "n16_b256",
    "n64_b64_p50",
    "n64_b64_uniform",
    "n64_b16",
    "n128_b32",
    "n64_b64_third",
    "pair_b16",
    "pair_b256",
)
CHECKED = ("n128_b64", "n128_b64_p50", "n32_b128", "n256_b16", "n64_b256")
FACTOR = 1.5
"""The law describes a row if the mean log T of its trainings lies within this factor."""
PAIR_TOKENS = 16
"""Real tokens of a pair of the embedded language, on average."""
ABSOLUTE = {"pair": False, "uniform": False, "masked": 0.15}
ANCHORS = [
    ABSOLUTE | {"pair": True, "tokens": 64, "batch": 16, "rate": 1e-3, "updates": 10_750},
    ABSOLUTE | {"pair": True, "tokens": 64, "batch": 256, "rate": 1e-3, "updates": 750},
]
"""Trainings on real text: when_order's `absolute` (4 × 128; 0.1 nats below the lowest loss of
`none`), and a BERT-small on pairs (training losses in results/when_order_small; middle of the
hundred updates in which it is first 0.1 nats below where documents stay)."""
BASE = ABSOLUTE | {"tokens": 512, "batch": 256, "rate": 1e-4}
OUTSIDE = {
    "a: 15 % masked": BASE,
    "b: uniform share, all [MASK]": BASE | {"uniform": True, "masked": 0.5},
    "c: as a, of 128 tokens": BASE | {"tokens": 128},
}
"""Trainings of others: BertForMaskedLM of base size on packed text, AdamW 1e-4 constant."""
RESULTS = Path(__file__).parent / "results" / "plateau_toy"


def trainings(folder: Path) -> pd.DataFrame:
    """A line for each training on the embedded language with a constant rate: its cell, seed and
    held-out losses by step."""
    lines = []
    for path in sorted(folder.glob("pretrain/*/record.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["state"] != "finished" or record["meaning"]["recipe"].get("decay") != 1:
            continue
        log = map(
            json.loads, (path.parent / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        )
        of_cell = cell(record["meaning"])
        # Held-out masks are BERT's, under which a network that saw nothing but [MASK] is erratic.
        name = "loss" if of_cell["uniform"] else "heldout_loss"
        losses = {line["step"]: line[name] for line in log if name in line}
        lines.append(of_cell | {"seed": record["meaning"]["seed"], "losses": losses})
    return pd.DataFrame(lines)


def cell(meaning: dict[str, Any]) -> dict[str, Any]:
    """What the law reads of a training, and what tells it from others."""
    recipe, pair = meaning["recipe"], meaning["packing"] == "pair"
    masking = recipe.get("masking", 0.15)
    scheme = meaning["position"]["_target_"].rpartition(".")[2].lower()
    return {
        "scheme": {"noposition": "none", "relativebias": "fixed"}.get(scheme, scheme),
        "pair": pair,
        "tokens": PAIR_TOKENS if pair else meaning["length"],
        "batch": meaning["batch"],
        "uniform": masking == "uniform",
        "masked": 0.5 if masking == "uniform" else masking,
        "rate": recipe["lr"],
        "warmup": recipe["warmup"],
        "beta": recipe["betas"][1],
        "position_lr": recipe.get("position_lr", 1.0),
        "norm_first": meaning["size"].get("norm_first", False),
    }


TEXT = ["pair", "tokens", "batch", "uniform", "masked", "rate", "warmup", "norm_first"]
"""What a row and its control, the row `none`, share."""
CELL = ["scheme", *TEXT, "beta", "position_lr"]


def exits(runs: pd.DataFrame) -> pd.DataFrame:
    """T of each training with a control, and whether it was censored."""
    controls = {
        key: pd.concat([pd.Series(losses) for losses in group["losses"]], axis=1).mean(axis=1)
        for key, group in runs[runs["scheme"] == "none"].groupby(TEXT)
    }
    lines = []
    for run in runs[runs["scheme"] != "none"].to_dict("records"):
        control = controls.get(tuple(run[key] for key in TEXT))
        if control is not None:
            updates, censored = exit_of(pd.Series(run["losses"]), control)
            lines.append(
                {key: run[key] for key in [*CELL, "seed"]}
                | {"updates": updates, "censored": censored}
            )
    return pd.DataFrame(lines)


def exit_of(losses: pd.Series, control: pd.Series) -> tuple[float, bool]:
    """The update from which on the lead over the control is `LEAD`, along a straight line between
    two evaluations; the last evaluation and True where it is not at the end.

    >>> exit_of(pd.Series({10: 5.0, 20: 4.0}), pd.Series({10: 5.0, 20: 4.2}))
    (15.0, False)
    """
    steps = losses.index.to_numpy()
    lead = np.interp(steps, control.index, control) - losses.to_numpy()
    behind = np.flatnonzero(lead < LEAD)
    if not behind.size:
        return float(steps[0]), False
    last = behind[-1]
    if last == len(steps) - 1:
        return float(steps[-1]), True
    return float(np.interp(LEAD, lead[last : last + 2], steps[last : last + 2])), False


TERMS = ["constant", "log n", "log B", "log p", "log r", "pair", "uniform"]


def terms(cells: pd.DataFrame) -> pd.DataFrame:
    """The regressors of the law, at 0 for the row n64_b64."""
    columns = [
        np.ones(len(cells)),
        np.log(cells["tokens"] / 64),
        np.log(cells["batch"] / 64),
        np.log(cells["masked"] / 0.15),
        np.log(cells["rate"] / 0.0025),
        cells["pair"].astype(float),
        cells["uniform"].astype(float),
    ]
    return pd.DataFrame(dict(zip(TERMS, map(np.asarray, columns), strict=True)))


class CensoredLogNormal(GenericLikelihoodModel):
    """log T = x·β + s ε, ε ~ N(0, 1), of which a censored training says only that T is later.

    Args:
        endog: log T.
        exog: (trainings, terms) x.
        censored: whether T is later than said.
    """

    def __init__(self, endog: Any, exog: Any, censored: Any) -> None:
        super().__init__(endog, exog, extra_params_names=["log s"])
        self.censored = np.asarray(censored)

    def nloglikeobs(self, params: Any) -> Any:
        scale = np.exp(params[-1])
        z = (self.endog - self.exog @ params[:-1]) / scale
        return np.where(self.censored, -norm.logsf(z), -norm.logpdf(z) + np.log(scale))


def fitted(cells: pd.DataFrame) -> Any:
    """The law, fitted to these trainings by maximum likelihood."""
    model = CensoredLogNormal(np.log(cells["updates"]), terms(cells), cells["censored"])
    least_squares = np.linalg.lstsq(model.exog, model.endog, rcond=None)[0]
    return model.fit(start_params=[*least_squares, np.log(0.2)], method="bfgs", disp=False)


def predicted(law: Any, cells: pd.DataFrame) -> pd.DataFrame:
    """T that the law says of each of these trainings, with the 95 % interval of a single one."""
    x, scale = terms(cells).to_numpy(), np.exp(law.params[-1])
    error = np.sqrt(np.einsum("ij,jk,ik->i", x, law.cov_params()[:-1, :-1], x) + scale**2)
    middle = x @ law.params[:-1]
    bounds = {"law": middle, "low": middle - 1.96 * error, "high": middle + 1.96 * error}
    return pd.DataFrame(
        {name: np.exp(values) for name, values in bounds.items()}, index=cells.index
    )


def outside(law: Any) -> dict[str, list[float]]:
    """T of trainings on real text that are not ours, each with a 95 % interval: what the law says,
    times the geometric mean by which the two `ANCHORS` are later than it says. The interval has
    the law's error and the anchors' spread, as of a third training from where they are."""
    anchors, cells = pd.DataFrame(ANCHORS), pd.DataFrame(OUTSIDE.values())
    later = np.log(anchors["updates"]) - terms(anchors).to_numpy() @ law.params[:-1]
    x = terms(cells).to_numpy()
    middle = x @ law.params[:-1] + later.mean()
    of_law = np.einsum("ij,jk,ik->i", x, law.cov_params()[:-1, :-1], x)
    error = np.sqrt(of_law + later.var(ddof=1) * (1 + 1 / len(later)))
    bounds = np.exp([middle, middle - 1.96 * error, middle + 1.96 * error])
    return {name: bounds[:, place].tolist() for place, name in enumerate(OUTSIDE)}


def named(cells: pd.DataFrame) -> pd.Series:
    """The names of rows in the experiment files."""
    names = np.where(
        cells["pair"],
        "pair_b" + cells["batch"].astype(str),
        "n" + cells["tokens"].astype(str) + "_b" + cells["batch"].astype(str),
    )
    names = pd.Series(names, cells.index)
    names = names.where(cells["scheme"] == "absolute", cells["scheme"] + "_" + names)
    names += np.where(cells["uniform"], "_uniform", np.where(cells["masked"] == 0.5, "_p50", ""))
    names += np.select(
        [cells["rate"] < 0.002, cells["rate"] > 0.003], ["_third", "_triple"], default=""
    )
    names += np.where(cells["warmup"] > 1000, "_warmup_2000", "")
    names += np.where(cells["norm_first"], "_norm_first", "")
    names += np.where(cells["position_lr"] > 1, "_position_lr_10", "")
    return names + np.where(cells["beta"] != 0.999, "_beta", "")


def medians(cells: pd.DataFrame) -> pd.DataFrame:
    """Of each row the trainings, how many of them were censored, and Kaplan and Meier's median."""
    lines = {}
    for name, group in cells.groupby("row", sort=False):
        survival = SurvfuncRight(group["updates"], ~group["censored"])
        lines[name] = {
            "seeds": len(group),
            "censored": int(group["censored"].sum()),
            "median": float(survival.quantile(0.5)),
            "least": float(group["updates"].min()),
            "most": float(group["updates"].max()),
        }
    return pd.DataFrame.from_dict(lines, orient="index")


def report(cells: pd.DataFrame, law: Any) -> dict[str, Any]:
    """Coefficients with 95 % intervals, the rows on which the law is checked, and what it says of
    trainings that are not ours."""
    interval = law.conf_int()
    names = [*TERMS, "log s"]
    check = {}
    for name in CHECKED:
        group = cells[cells["row"] == name]
        if len(group):
            expected = float(predicted(law, group)["law"].iloc[0])
            seen = float(np.exp(np.log(group["updates"]).mean()))
            within = bool(1 / FACTOR <= seen / expected <= FACTOR)
            check[name] = {"law": expected, "seen": seen, "seeds": len(group), "within": within}
    coefficients = {
        name: [float(value), *map(float, bounds)]
        for name, value, bounds in zip(names, law.params, interval, strict=True)
    }
    return {"coefficients": coefficients, "checked": check, "outside": outside(law)}


def draw(cells: pd.DataFrame, law: Any, to: Path) -> None:
    """T of each training, and what the law says of its row: a line for each row."""
    rows = [name for name in [*FITTED, *CHECKED] if name in set(cells["row"])]
    figure, axes = plt.subplots(figsize=(7, 0.34 * len(rows) + 1.2), layout="constrained")
    for place, name in enumerate(reversed(rows)):
        group = cells[cells["row"] == name]
        line = predicted(law, group).iloc[0]
        axes.plot([line["low"], line["high"]], [place, place], color="0.8", linewidth=7, zorder=1)
        axes.plot([line["law"]], [place], "|", color="0.4", markersize=11, zorder=2)
        color = "C0" if name in FITTED else "C1"
        for censored, marker in ((False, "o"), (True, ">")):
            seen = group[group["censored"] == censored]
            axes.plot(seen["updates"], [place] * len(seen), marker, color=color, markersize=4)
    axes.set_yticks(range(len(rows)), list(reversed(rows)))
    axes.set_xscale("log")
    axes.set_xlabel("updates until the plateau is left (grey: the law, 95 % for one training)")
    axes.set_title("blue: fitted, orange: not fitted, arrows: not left when training ended")
    figure.savefig(to, dpi=120)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cells = exits(trainings(Path(sys.argv[1])))
    cells.insert(0, "row", named(cells))
    law = fitted(cells[cells["row"].isin(FITTED)].reset_index(drop=True))
    result = report(cells, law)
    RESULTS.mkdir(parents=True, exist_ok=True)
    cells.sort_values(["row", "seed"])[["row", "seed", "updates", "censored"]].to_csv(
        RESULTS / "exits.csv", index=False, float_format="%.1f"
    )
    (RESULTS / "law.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    draw(cells, law, RESULTS / "law.png")
    print(medians(cells).round(0).to_string())
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

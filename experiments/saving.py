"""What a start at the neighbours saves of the plateau: python experiments/saving.py FOLDER

FOLDER is `$RELPOS_RUNS`, or where records.tar.xz of plateau_saving and of plateau_toy_arms were
unpacked. experiments/plateau_saving.yaml says what is asked. Prints, and writes beside its table

    saving.csv   row, seed, T in updates, whether it was censored there, the last held-out loss
    saving.png   held-out losses by update
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from plateau import exit_of

FALLS = 3600
"""The update after which the rate of the long rows falls."""
RESULTS = Path(__file__).parent / "results" / "plateau_saving"


def row_of(meaning: dict[str, Any]) -> str | None:
    """The row of this table to which a training belongs, without what says how long it was."""
    position, name = meaning["position"], meaning["position"]["_target_"].rpartition(".")[2]
    same = (
        meaning["packing"] == "document"
        and meaning["batch"] == 16
        and meaning["length"] in (128, 256)
        and meaning["recipe"]["betas"] == [0.9, 0.999]
        and meaning["size"]["hidden"] == 64
        and meaning["seed"] < 900
    )
    if not same or name not in ("NoPosition", "Absolute"):
        return None
    row = f"n{meaning['length']}_b16"
    if name == "NoPosition":
        return f"none_{row}"
    if position.get("start") == "neighbours":
        return f"neighbours_{row}"
    # Of the first start, which is no longer in the code.
    return f"first_{row}" if position.get("neighbours") else row


def trainings(folder: Path) -> pd.DataFrame:
    """A line for each finished training: its row, seed, length in updates and held-out losses."""
    lines = []
    for path in sorted(folder.glob("pretrain/*/record.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        row = row_of(record["meaning"]) if record["meaning"].get("packing") else None
        if row is None or record["state"] != "finished":
            continue
        log = (path.parent / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in log]
        losses = pd.Series(
            {entry["step"]: entry["heldout_loss"] for entry in entries if "heldout_loss" in entry}
        )
        seed = record["meaning"]["seed"]
        lines.append({"row": row, "seed": seed, "updates": losses.index[-1], "losses": losses})
    return pd.DataFrame(lines)


def control_of(runs: pd.DataFrame, run: Any) -> pd.Series:
    """The mean losses of `none` beside a training, with evaluations as frequent as its own where
    there are such."""
    length = run.row.rpartition("n")[2]
    of_length = runs[runs["row"] == f"none_n{length}"]
    beside = of_length[of_length["updates"] == run.updates]
    if beside.empty:
        beside = of_length[of_length["updates"] > 400]
    return pd.concat(list(beside["losses"]), axis=1).mean(axis=1)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    runs = trainings(Path(sys.argv[1]))
    lines = []
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    colors = {"none": "0.6", "n128": "C0", "first": "C2", "neighbours": "C1"}
    for run in runs.itertuples():
        kind = run.row.partition("_")[0]
        if kind in colors and "n128" in run.row:
            axes.plot(run.losses.index, run.losses, color=colors[kind], linewidth=1)
        if kind == "none":
            continue
        constant = run.losses[run.losses.index <= FALLS] if run.updates > FALLS else run.losses
        updates, censored = exit_of(constant, control_of(runs, run))
        line = {"row": run.row, "seed": run.seed, "of": run.updates, "T": round(updates, 1)}
        lines.append(line | {"censored": censored, "end": round(run.losses.iloc[-1], 4)})
    for kind, label in (
        ("none", "none"),
        ("n128", "absolute"),
        ("first", "absolute, first start at the neighbours"),
        ("neighbours", "absolute, begun at the neighbours"),
    ):
        axes.plot([], [], color=colors[kind], label=label)
    axes.set_xscale("log")
    axes.set_xlabel("updates (documents of 128 tokens, 16 an update)")
    axes.set_ylabel("held-out loss")
    axes.legend()
    table = pd.DataFrame(lines).sort_values(["row", "of", "seed"])
    print(table.to_string(index=False))
    RESULTS.mkdir(parents=True, exist_ok=True)
    table.to_csv(RESULTS / "saving.csv", index=False)
    figure.savefig(RESULTS / "saving.png", dpi=120)


if __name__ == "__main__":
    main()

"""When tables of positions leave the plateau on real text: python experiments/exits.py FOLDER

FOLDER is `$RELPOS_RUNS`, or where records.tar.xz of plateau_real and of when_order were unpacked.
T is the first evaluation from which on the held-out loss stays below what says the network knows
more than words, see experiments/plateau_real.yaml. Prints, and writes beside that table

    exits.csv   row, seed, updates of the training, T in updates, T in million real tokens
"""

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

BELOW = {"pair": 5.678, "document": 5.837}
"""Form of the text → 0.1 nats below the lowest loss of `none` on it: 5.778, which the experiment
file has, and 5.937, that of the row none_n64_b16."""
PAIR_TOKENS = 64.25
"""Real tokens of a pair, on average."""
RESULTS = Path(__file__).parent / "results" / "plateau_real"


def row_of(meaning: dict[str, Any]) -> str | None:
    """What tells a row from `absolute` with pairs, 16 in an update, at the papers' start."""
    position, recipe = meaning["position"], meaning["recipe"]
    name = position["_target_"].rpartition(".")[2].lower()
    if name not in ("absolute", "tupe"):
        return None
    words = [name, f"batch={meaning['batch']}"]
    if "start" in position:
        words.append(f"start={position['start']}")
    elif "std" in position:
        words.append(f"std={position['std']}")
    if meaning["size"].get("norm_first"):
        words.append("norm_first")
    if recipe["lr"] != 1e-3:
        words.append(f"lr={recipe['lr']:g} warmup={recipe['warmup']}")
    if meaning["packing"] == "document":
        words.append(f"documents of {meaning['length']}")
    return " ".join(words)


def exit_at(losses: dict[int, float], below: float) -> int | None:
    """The evaluation from which on the losses stay below; None where they do not at the end.

    >>> exit_at({10: 6.0, 20: 5.0, 30: 6.0, 40: 5.0, 50: 5.0}, 5.5)
    40
    """
    above = [step for step, loss in losses.items() if loss >= below]
    return min((step for step in losses if step > max(above, default=0)), default=None)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lines = []
    for path in sorted(Path(sys.argv[1]).glob("pretrain/*/record.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        meaning = record["meaning"]
        row = row_of(meaning)
        if row is None or record["state"] != "finished":
            continue
        log = (path.parent / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        losses = {
            line["step"]: line["heldout_loss"]
            for line in map(json.loads, log)
            if "heldout_loss" in line
        }
        updates = exit_at(losses, BELOW[meaning["packing"]])
        length = PAIR_TOKENS if meaning["packing"] == "pair" else meaning["length"]
        tokens = None if updates is None else round(updates * meaning["batch"] * length / 1e6, 1)
        line = {"row": row, "seed": meaning["seed"], "of": meaning["steps"], "T": updates}
        lines.append(line | {"million tokens": tokens})
    table = pd.DataFrame(lines).sort_values(["row", "of", "seed"]).astype({"T": "Int64"})
    print(table.to_string(index=False))
    RESULTS.mkdir(parents=True, exist_ok=True)
    table.to_csv(RESULTS / "exits.csv", index=False)


if __name__ == "__main__":
    main()

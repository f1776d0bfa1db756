"""When tables of positions leave the plateau on real text: python experiments/exits.py FOLDER

FOLDER is `$RELPOS_RUNS`, or where records.tar.xz of plateau_real and of when_order were unpacked.
T is the first evaluation from which on the held-out loss stays 0.1 nats below the lowest of `none`
on the same text at the full rate, see experiments/plateau_real.yaml. For pairs that file, which was
written before its runs, has 5.778; the records of `none` in FOLDER may have another one. Prints,
and writes beside that table

    exits.csv   row, seed, updates of the training, T by the file's loss and by that of FOLDER, and
                million real tokens until T by the file's
"""

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from delay import reached

LOWEST = {"pair": 5.778, "document": 5.937}
"""Form of the text → the lowest loss of `none`; for documents that of the row none_n64_b16."""
LEAD = 0.1
PAIR_TOKENS = 64.25
"""Real tokens of a pair, on average."""
RESULTS = Path(__file__).parent / "results" / "plateau_real"


def row_of(meaning: dict[str, Any]) -> str:
    """The scheme, the batch, and what else tells a training from `absolute` on pairs."""
    position, recipe = meaning["position"], meaning["recipe"]
    words = [position["_target_"].rpartition(".")[2].lower(), f"batch={meaning['batch']}"]
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


def exit_at(losses: pd.Series, lowest: float) -> int | None:
    """The evaluation from which on the losses stay `LEAD` below; None where they do not at the end.

    >>> exit_at(pd.Series({10: 6.0, 20: 5.0, 30: 6.0, 40: 5.0, 50: 5.0}), 5.6)
    40
    """
    after = losses.index[losses.index >= reached(losses, lowest - LEAD)]
    return int(after[0]) if len(after) else None


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lines, of_folder = [], dict.fromkeys(LOWEST, float("inf"))
    for path in sorted(Path(sys.argv[1]).glob("pretrain/*/record.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["state"] != "finished":
            continue
        log = (path.parent / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        entries = [line for line in map(json.loads, log) if "heldout_loss" in line]
        losses = pd.Series({line["step"]: line["heldout_loss"] for line in entries})
        meaning = record["meaning"]
        form, decay, steps = meaning["packing"], meaning["recipe"]["decay"], meaning["steps"]
        if path.parent.name.startswith("none-4x128"):
            constant = losses[losses.index <= steps - (decay if decay >= 1 else decay * steps)]
            of_folder[form] = min(of_folder[form], constant.min())
        elif path.parent.name.startswith(("absolute-", "tupe-")):
            line = {"row": row_of(meaning), "seed": meaning["seed"], "of": steps}
            lines.append(line | {"form": form, "losses": losses, **meaning})
    table = []
    for line in lines:
        first, second = (exit_at(line["losses"], at[line["form"]]) for at in (LOWEST, of_folder))
        tokens = PAIR_TOKENS if line["form"] == "pair" else line["length"]
        read = None if first is None else round(first * line["batch"] * tokens / 1e6, 1)
        shown = {key: line[key] for key in ("row", "seed", "of")}
        table.append(shown | {"T": first, "T by records": second, "million tokens": read})
    for form, lowest in of_folder.items():
        print(f"lowest loss of none in FOLDER, {form}: {lowest:.3f}")
    result = pd.DataFrame(table).sort_values(["row", "of", "seed"])
    result = result.astype({"T": "Int64", "T by records": "Int64"})
    print(result.to_string(index=False))
    RESULTS.mkdir(parents=True, exist_ok=True)
    result.to_csv(RESULTS / "exits.csv", index=False)


if __name__ == "__main__":
    main()

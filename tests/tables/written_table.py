"""A table with everything a table may have: several seeds, the paper's numbers, failed, collapsed and missing runs, scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PRINTED = {"cola": 40.0, "rte": 66.0}
SCORES: dict[str, dict[str, list[float]]] = {
    "none": {"cola": [0.0, 6.0], "rte": [53.0, 55.0]},
    "fixed <b>": {"cola": [38.0, 39.0], "rte": []},
    "composite": {"cola": [41.0, 42.0], "rte": [67.0]},
    "dynamic": {"cola": [], "rte": []},
}


def table(name: str = "small") -> dict[str, Any]:
    """The content of a `table.json`."""
    rows = [_row(name, place, scores) for place, (name, scores) in enumerate(SCORES.items())]
    checks = [{"says": "order helps & how", "verdict": "holds", "figures": "composite 41.5 > none 3.0"}]
    return {"name": name, "question": "which is best, 100 % & <all>?", "rows": rows, "checks": checks}


def write(runs: Path, content: dict[str, Any]) -> Path:
    """`runs/tables/NAME/table.json`; its folder."""
    folder = runs / "tables" / str(content["name"])
    folder.mkdir(parents=True)
    (folder / "table.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def _row(name: str, place: int, scores: dict[str, list[float]]) -> dict[str, Any]:
    there = bool(scores["cola"])
    runs = [_run("pretrain", None, place, 0, "finished" if there else "missing", {})]
    for task, values in scores.items():
        states = ["finished"] * len(values) + ["failed"] * (task == "rte" and 0 < len(values) < 2)
        states += ["missing"] * (2 - len(states))
        runs += [_run("finetune", task, place, seed, state, dict.fromkeys([task], value)) for seed, state, value in zip(
            range(2), states, [*values, None, None], strict=False)]  # fmt: skip
    return {
        "name": name,
        "words": ["position=any"],
        "parameters": 1_000_000 + place if there else None,
        "position_parameters": 16 * place,
        "perplexity": 20.0 - place if there else None,
        "columns": {task: _column(task, values) for task, values in scores.items()},
        "mean": _column("mean", [sum(pair) / 2 for pair in zip(*scores.values(), strict=False)]) | {"of": list(scores)},
        "heldout_loss": [[10, 5.0], [20, 4.0 - place / 10]] if there else [],
        "runs": runs,
    }


def _column(task: str, values: list[float]) -> dict[str, Any]:
    count = len(values)
    mean = sum(values) / count if count else None
    printed = PRINTED.get(task)
    return {
        "values": values,
        "seeds": list(range(count)),
        "mean": mean,
        "sem": abs(values[1] - values[0]) / 2 if count > 1 else None,
        "best": max(values, default=None),
        "median": mean,
        "interval": [min(values), max(values)] if count > 1 else None,
        "printed": printed,
        "difference": mean - printed if mean is not None and printed is not None else None,
        "verdict": None if printed is None else "not run" if mean is None else "below" if mean < 20 else "reproduced",
        "majority": 0.0 if task == "cola" else 50.0,
        "n_failed": 1 if count == 1 and task == "rte" else 0,
        "n_collapsed": sum(value == 0 for value in values),
        "n_missing": 0,
    }


def _run(stage: str, task: str | None, place: int, seed: int, state: str, columns: dict[str, Any]) -> dict[str, Any]:
    identity = f"{stage[0]}{task or ''}{place}{seed}"
    words = {"stage": stage, "task": task, "pretrain_seed": 0, "seed": seed, "identity": identity, "state": state}
    return words | {"path": f"{stage}/run {identity}", "columns": columns if state == "finished" else {}}

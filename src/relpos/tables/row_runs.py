"""Which runs stand behind a row: what a table needs to point at them, and what a submission needs to choose among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from relpos.errors import RelposError, nearest
from relpos.runs.config import shipped
from relpos.runs.log import LOG, last_lines
from relpos.runs.run import Run, runs_root
from relpos.tables.plan import PlannedRow


def entries(row: PlannedRow) -> list[dict[str, Any]]:
    """Pre-trainings, then fine-tunings: `stage`, `task`, `pretrain_seed`, `seed`, `state`, `identity`, `path` below
    `$RELPOS_RUNS`, and of a finished fine-tuning the `columns` that it scored."""
    found = [_entry(run, None, run.config.get("seed"), run.config.get("seed")) for run in row.pretrainings]
    return found + [_entry(tuning.run, tuning.task, tuning.pretrain_seed, tuning.seed) for tuning in row.tunings]


def _entry(run: Run, task: str | None, pretrain_seed: int | None, seed: int | None) -> dict[str, Any]:
    path = run.path
    record = run.record
    shown = path.relative_to(runs_root()) if path.is_relative_to(runs_root()) else path
    words = {"stage": run.stage, "task": task, "pretrain_seed": pretrain_seed, "seed": seed, "identity": run.identity}
    state = "finished" if run.stage == "given" else record.get("state", "missing")
    found = {"state": state, "path": shown.as_posix(), "columns": record.get("metrics", {}).get("columns", {})}
    return words | found | ({"error": record["error"], "log": last_lines(run.path / LOG)} if record.get("error") else {})


def written(table: str) -> tuple[Path, dict[str, Any]]:
    """The folder of a table that was written before, and its `table.json`.

    Args:
        table: its name, or the experiment file that it was made from.

    Raises:
        RelposError: there is none; the nearest names are told.
    """
    name = Path(table).stem if table.endswith((".yaml", ".yml")) else table
    tables = runs_root() / "tables"
    try:
        return tables / name, dict(json.loads((tables / name / "table.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        known = nearest(name, (path.parent.name for path in tables.glob("*/table.json")))
        there = table != name or (shipped("experiments") / f"{name}.yaml").is_file()
        makes = f" yet: relpos reproduce table={table} makes it" if there else ""
        raise RelposError(f"no table {name!r} in {tables}{makes}.{known}") from None


def row_of(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The row of this name.

    Raises:
        RelposError: there is none; the nearest names are told.
    """
    for row in content["rows"]:
        if row["name"] == name:
            return dict(row)
    raise RelposError(f"table {content['name']}: unknown row {name!r}.{nearest(name, (row['name'] for row in content['rows']))}")

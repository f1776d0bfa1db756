"""The runs behind a row, so that a table can link them and a submission can choose among them."""

from __future__ import annotations

from relpos.runs.log import LOG, last_lines
from relpos.runs.run import Run, runs_root
from relpos.tables.plan import PlannedRow
from relpos.tables.row import RowRun


def row_runs(row: PlannedRow) -> list[RowRun]:
    """The pre-trainings of a row, then its fine-tunings, as their records are now."""
    pretrainings = [_row_run(run, None, run.config.get("seed"), run.config.get("seed")) for run in row.pretrainings]
    return pretrainings + [_row_run(tuning.run, tuning.task, tuning.pretrain_seed, tuning.seed) for tuning in row.tunings]


def _row_run(run: Run, task: str | None, pretrain_seed: int | None, seed: int | None) -> RowRun:
    root, record = runs_root(), run.record
    error = record.get("error")
    return RowRun(
        stage=run.stage,
        identity=run.identity,
        state="finished" if run.stage == "given" else record.get("state", "missing"),
        path=(run.path.relative_to(root) if run.path.is_relative_to(root) else run.path).as_posix(),
        task=task,
        pretrain_seed=pretrain_seed,
        seed=seed,
        columns=record.get("metrics", {}).get("columns", {}),
        error=error,
        log=last_lines(run.path / LOG) if error else [],
    )

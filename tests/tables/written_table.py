"""A table with everything a table may have: several seeds, the paper's numbers, failed, collapsed
and missing runs, scores."""

from pathlib import Path

from relpos.runs.table_file import RowRun
from relpos.tables.table import Column, Row, Table

PRINTED = {"cola": 40.0, "rte": 66.0}
SCORES: dict[str, dict[str, list[float]]] = {
    "none": {"cola": [0.0, 6.0], "rte": [53.0, 55.0]},
    "fixed <b>": {"cola": [38.0, 39.0], "rte": []},
    "composite": {"cola": [41.0, 42.0], "rte": [67.0]},
    "dynamic": {"cola": [], "rte": []},
}


def table(name: str = "small") -> Table:
    """The table; `write` puts it where a command finds it."""
    rows = [_row(row, place, scores) for place, (row, scores) in enumerate(SCORES.items())]
    return Table(name, "which is best, 100 % & <all>?", rows)


def write(runs: Path, written: Table) -> Path:
    """Writes `runs/tables/NAME/table.json`; returns the folder of the table."""
    folder = runs / "tables" / written.name
    written.write(folder)
    return folder


def _row(name: str, place: int, scores: dict[str, list[float]]) -> Row:
    is_trained = bool(scores["cola"])
    runs = [_run("pretrain", None, place, 0, "finished" if is_trained else "missing", {})]
    for task, values in scores.items():
        states = ["finished"] * len(values) + ["failed"] * (task == "rte" and 0 < len(values) < 2)
        states += ["missing"] * (2 - len(states))
        for seed, state in enumerate(states):
            columns = {task: values[seed]} if state == "finished" else {}
            runs.append(_run("finetune", task, place, seed, state, columns))
    means = [sum(pair) / 2 for pair in zip(*scores.values(), strict=False)]
    return Row(
        name=name,
        overrides=["position=any"],
        parameters=1_000_000 + place if is_trained else None,
        position_parameters=16 * place,
        perplexity=20.0 - place if is_trained else None,
        columns={task: _column(task, values) for task, values in scores.items()},
        mean=_column("mean", means, of=list(scores)),
        heldout_loss=[(10, 5.0), (20, 4.0 - place / 10)] if is_trained else [],
        runs=runs,
    )


def _column(task: str, values: list[float], of: list[str] | None = None) -> Column:
    count = len(values)
    mean = sum(values) / count if count else None
    printed = PRINTED.get(task)
    return Column(
        values=values,
        seeds=[(0, seed) for seed in range(count)],
        mean=mean,
        sem=abs(values[1] - values[0]) / 2 if count > 1 else None,
        best=max(values, default=None),
        median=mean,
        interval=(min(values), max(values)) if count > 1 else None,
        of=of or [],
        printed=printed,
        difference=mean - printed if mean is not None and printed is not None else None,
        inside=mean > 20 if printed is not None and mean is not None and count > 1 else None,
        majority=0.0 if task == "cola" else 50.0,
        n_failed=1 if count == 1 and task == "rte" else 0,
        n_collapsed=sum(value == 0 for value in values),
    )


def _run(
    stage: str, task: str | None, place: int, seed: int, state: str, columns: dict[str, float]
) -> RowRun:
    identity = f"{stage[0]}{task or ''}{place}{seed}"
    return RowRun(
        stage,
        identity,
        state,
        f"{stage}/run {identity}",
        task,
        pretrain_seed=0,
        seed=seed,
        columns=columns,
    )

"""The plan of a table in words: what is there, what is missing, what waits for what."""

from __future__ import annotations

from collections import Counter

from relpos.runs.run import Run
from relpos.tables.plan import Row


def describe(name: str, rows: list[Row], runs: list[Run]) -> str:
    """A few lines: the shared inputs, then each row with its pre-training and its fine-tunings."""
    states = Counter(run.state for run in runs)
    own = {run.identity for row in rows for run in (*row.pretrainings, *(tuning.run for tuning in row.tunings))}
    lines = [f"{name}: {len(runs)} runs: {_counts(states)}"]
    lines += [f"  {_line(run)}" for run in runs if run.identity not in own]
    for row in rows:
        lines.append(f"{row.name} ({' '.join(row.words) or 'no words of its own'})")
        lines += [f"  {_line(run)}" for run in row.pretrainings]
        starts = {start.path: f"{start.stage} {start.name}" for start in _starts(row)}
        for state, tunings in _by_state(row).items():
            tasks = ", ".join(f"{task} {seeds}" for task, seeds in tunings.items())
            lines.append(f"  finetune {state}: {tasks}")
        lines.append(f"  fine-tunings need {', '.join(starts.values())}")
    return "\n".join(lines)


def _starts(row: Row) -> list[Run]:
    return [tuning.run.inputs["start"] for tuning in row.tunings]


def _by_state(row: Row) -> dict[str, dict[str, list[int]]]:
    """State → task → seeds."""
    result: dict[str, dict[str, list[int]]] = {}
    for tuning in row.tunings:
        result.setdefault(tuning.run.state, {}).setdefault(tuning.task, []).append(tuning.seed)
    return result


def _counts(states: Counter[str]) -> str:
    return ", ".join(f"{count} {state}" for state, count in states.most_common())


def _line(run: Run) -> str:
    needs = ", ".join(other.stage for other in run.inputs.values())
    absent = "; its text is not there" if "corpus" in run.meaning and run.meaning["corpus"] is None else ""
    return f"{run.stage} {run.name}: {run.state}{'; needs ' + needs if needs else ''}{absent}"

"""The plan of a table in words: which runs are finished, what the others wait for, and about how long they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from relpos.runs.cost import Estimate, duration, flops
from relpos.runs.run import Run
from relpos.tables.experiment import Experiment
from relpos.tables.order_instrument import Instrument, to_measure
from relpos.tables.plan import PlannedRow


def describe(
    name: str, rows: list[PlannedRow], runs: list[Run], instrument: Instrument | None = None, file: Experiment | None = None
) -> str:
    """The counts and the estimate, the shared inputs, then each row with those of its runs that are wanted. The file says how many
    fine-tunings there will be of a checkpoint that is not at hand.
    """
    states = {run.identity: run.state for run in runs}
    estimate = Estimate()
    missing = [run for run in runs if states[run.identity] != "finished" and flops(run)]
    said = _left(missing, estimate) if missing else "nothing is left to train"
    if "unknown" in said:
        said += ": no run like these has finished on this hardware; `relpos cost` measures some steps"
    of_rows = {run.identity for row in rows for run in row.runs}
    # Without runs the estimate would say that nothing is left.
    if needed := next((row.needs for row in rows if row.needs), None):
        said = f"nothing can be planned: the checkpoint to start from is not at hand, {needed}=FOLDER names one"
        said += f"; {len(rows)} rows × {len(file.tasks)} tasks × {len(file.seeds)} fine-tuning seeds" if file else ""
    counts = ", ".join(f"{count:,} {state}" for state, count in Counter(states.values()).most_common())
    lines = [f"{name}: {len(runs):,} runs: {counts}", said]
    if instrument is not None:
        lines.append(_of_order(rows, instrument))
    lines += [f"  {_line(run, states)}" for run in runs if run.identity not in of_rows]
    for row in rows:
        wanted = [run for run in row.runs if run.identity in states]
        left = [run for run in wanted if states[run.identity] != "finished"]
        overrides = " ".join(row.overrides) or "no overrides of its own"
        if row.needs:
            lines.append(f"{row.name} ({overrides}): no runs yet; needs {row.needs}=")
            continue
        done = f"{len(wanted) - len(left)} of {len(wanted)} runs are there"
        lines.append(f"{row.name} ({overrides}): {done}, {_left(left, estimate)}")
        lines += [f"  {_line(run, states)}" for run in row.pretrainings if run.identity in states]
        lines += _tunings(row, states)
    return "\n".join(lines)


def _left(missing: list[Run], estimate: Estimate) -> str:
    """How long runs take."""
    seconds, unknown = estimate.total(missing)
    if unknown == len(missing) > 0:
        return "an unknown time left"
    return f"{duration(seconds)} left" + (f", unknown for {unknown:,} of {len(missing):,} runs" if unknown else "")


def _of_order(rows: list[PlannedRow], instrument: Instrument) -> str:
    """How many networks are to be measured."""
    runs = {run.identity: run for row in rows for run in row.pretrainings}.values()
    # Once per pre-training, though several rows may show it.
    left = [asked for run in runs for asked in to_measure(run, instrument) if not asked.is_measured()]
    return f"order: {len(left):,} networks to measure, snapshots counted" if left else "order: all is measured"


def _tunings(row: PlannedRow, states: Mapping[str, str]) -> list[str]:
    """A line for each state, reason and pre-training: the tasks and their seeds."""
    groups: dict[str, dict[str, list[int]]] = {}
    for tuning in row.tunings:
        if tuning.run.identity in states:
            seeds = groups.setdefault(_standing(tuning.run, states), {}).setdefault(tuning.task, [])
            # Every pre-training has the same fine-tuning seeds, which are named once.
            seeds += [] if tuning.seed in seeds else [tuning.seed]
    return [f"  finetune {_by_seeds(tasks)}: {standing}" for standing, tasks in groups.items()]


def _by_seeds(tasks: Mapping[str, list[int]]) -> str:
    """`cola sst2 (seeds 0–9), rte (seed 0)`."""
    groups: dict[str, list[str]] = {}
    for task, seeds in tasks.items():
        groups.setdefault(_seeds(seeds), []).append(task)
    return ", ".join(f"{' '.join(names)} ({seeds})" for seeds, names in groups.items())


def _seeds(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]}–{seeds[-1]}"
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _line(run: Run, states: Mapping[str, str]) -> str:
    return f"{run.stage} {run.name}: {_standing(run, states)}"


def _standing(run: Run, states: Mapping[str, str]) -> str:
    """The state of a run, and why it is not finished."""
    state = states[run.identity]
    if state == "finished":
        return state
    reasons = []
    if state == "failed":
        reasons.append(str(run.record.get("error")))
    if state in ("running", "interrupted") and (starts := run.record.get("starts")):
        reasons.append(f"started {starts[-1]['time']} by process {starts[-1]['pid']} on {starts[-1]['host']}")
    if "corpus" in run.meaning and run.meaning["corpus"] is None:
        reasons.append("its text is not there")
    if "glue" in run.meaning and run.meaning["glue"] is None:
        reasons.append("its task is not there")
    unfinished = [other for other in run.inputs.values() if states.get(other.identity, "finished") != "finished"]
    waits = dict.fromkeys(map(_name, unfinished))
    if waits:
        reasons.append(f"waits for {', '.join(waits)}")
    return "; ".join([state, *reasons]) if reasons else f"{state}; ready to start"


def _name(run: Run) -> str:
    """Stage and name without the seed: the fine-tunings of a task wait each for the intermediate fine-tuning of its own seed."""
    return f"{run.stage} {run.name if run.stage != 'finetune' else run.name.rpartition('-seed')[0]}"

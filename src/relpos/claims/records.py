"""Rules about what runs and tables have recorded besides the scores on dev sets: losses of longer inputs, times of steps, and the
scores that the GLUE server gave."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from pathlib import Path
from statistics import fmean, median, stdev

from relpos.claims.comparisons import decided
from relpos.claims.rule import Test, once, rule
from relpos.claims.verdict import FAILS, HOLDS, NOT_RUN, UNDECIDED, Verdict, all_of, below, joined, more_seeds, sided
from relpos.errors import RelposError, say
from relpos.measures.kinds.lengths import ByLength, kept_losses
from relpos.results.scale import MEAN, Scale
from relpos.results.statistics import Difference, paired, standard_error
from relpos.results.values import GLUE
from relpos.runs.run import read_record, runs_root
from relpos.runs.shelf import logged
from relpos.runs.table_file import FILE, read_table
from relpos.tables.table import Row, Table

TIMES = (2, 4)
"""Of the trained length are the longer inputs."""
Machine = tuple[str, bool]
"""Hardware and threads of a run, as text, and whether there is a GPU among them."""
MANY = 1e9
"""Degrees of freedom of an error that is known, and not estimated from the scores."""


@rule("held-out loss of {row} at 2 and 4 times the trained length is less than {bound} nats higher than at it")
def serves_longer(test: Test, scale: Scale, *, bound: float = 0.02) -> Verdict | None:
    """Held-out loss at two and four times the trained length is not higher than at that length by `bound` nats or more.

    The losses are those that a table with `lengths:` has measured and kept in the runs' folders, on the same text under the same
    masks. Holds: the 95 % interval of the difference over pre-training seeds lies below `bound` at both lengths. Fails: it lies
    above at one of them, or the scheme refuses such inputs. The losses of `others` are shown and do not decide.
    """
    if test.row not in scale.folders:
        return None
    length = int(scale.meaning["length"])
    lengths = [length, *(times * length for times in TIMES)]
    kept = {row: map(kept_losses, scale.folders[row].values()) for row in test.rows if row in scale.folders}
    measured = {row: [losses for losses in of_row if all(n in losses for n in lengths)] for row, of_row in kept.items()}
    if not (ours := measured[test.row]):
        needs = f"needs held-out losses of {test.row} at {', '.join(map(str, lengths))} tokens (lengths: in an experiment file)"
        return Verdict(NOT_RUN, needs)
    said = [_longer(row, of_row, lengths) for row, of_row in measured.items() if of_row]
    # A refusal needs no statistics: it is a property of the scheme.
    if any(losses[n] is None for losses in ours for n in lengths):
        return Verdict(FAILS, joined(said))
    # None cannot be among them any more: it is decided above.
    at_length = {n: [losses[n] or 0.0 for losses in ours] for n in lengths}
    tested = {n: paired(at_length[n], at_length[length]) for n in lengths[1:]}
    said += [f"{n} tokens {each.interval(3)}" for n, each in tested.items() if each]
    needs = more_seeds(scale, test.row, how=f" measured at {lengths}")
    every = list(tested.values())
    return decided(scale, said, every, lambda known: all_of([below(each, bound) for each in known]), needs, bound, test.row)


def _longer(row: str, measured: Sequence[ByLength], lengths: Sequence[int]) -> str:
    """`tisa +0.010 at 256, refuses 512`: mean difference to the trained length, over the seeds."""
    parts = []
    for n in lengths[1:]:
        both = [(losses[n], losses[lengths[0]]) for losses in measured]
        known = [now - before for now, before in both if now is not None and before is not None]
        parts.append(f"{sum(known) / len(known):+.3f} at {n}" if len(known) == len(both) else f"refuses {n}")
    return f"{row} {', '.join(parts)}"


@rule("a step of {row} takes at most {times} times as long as one of {others}")
def step_time(test: Test, scale: Scale, *, times: float = 1.5) -> Verdict | None:
    """A step of `row` takes at most `times` as long as one of each of the `others`, on the same hardware with the same threads.

    A row's time is the median over the log lines of its runs, without the first line of each; if several machines ran both rows,
    the median of their ratios counts. The figures name the machines. Holds: every ratio is at most `times`. Fails: none is. Only
    GPUs decide: what keeps the threads of a CPU busy says nothing of how well a scheme runs in parallel.
    """
    ours = _seconds(scale, test.row)
    ratios: dict[str, float] = {}
    machines: set[Machine] = set()
    for other in test.others:
        both = {machine: ours[machine] / theirs for machine, theirs in _seconds(scale, other).items() if machine in ours}
        if both:
            ratios[other] = median(both.values())
            machines |= set(both)
    if not ratios:
        return None
    slow = sum(ratio > times for ratio in ratios.values())
    word = HOLDS if not slow else FAILS if slow == len(ratios) else UNDECIDED
    verdict = word if all(is_gpu for _, is_gpu in machines) else UNDECIDED
    said = ", ".join(f"{ratio:.2f} times {name}" for name, ratio in ratios.items())
    figures = f"{test.row} takes {said}, on {' and '.join(sorted(name for name, _ in machines))}"
    return Verdict(verdict, figures, takes="runs on a GPU that does nothing else")


def _seconds(scale: Scale, row: str) -> dict[Machine, float]:
    """Median seconds of a step on each machine, over the runs of a row."""
    times: dict[Machine, list[float]] = {}
    for folder in scale.folders.get(row, {}).values():
        record = read_record(folder)
        hardware, threads = record.get("hardware") or {}, (record.get("starts") or [{}])[-1].get("threads")
        gpus = hardware.get("gpus", [])
        parts = [*gpus, hardware.get("processor"), f"{hardware.get('cores', '?')} cores", f"{threads or '?'} threads"]
        machine = ", ".join(filter(None, parts)), bool(gpus)
        rates = [line["steps_per_second"] for line in logged(folder) if line.get("steps_per_second")]
        # Without the first line of a log, in which memory is allocated and kernels are compiled.
        times.setdefault(machine, []).extend(1 / rate for rate in rates[1:])
    return {machine: median(seconds) for machine, seconds in times.items() if seconds}


@rule("dev means lie above the GLUE server's scores", once)
def dev_above_test(test: Test) -> Verdict:
    """GLUE on the dev sets (mean over runs) lies above the server's score, over the rows that have one.

    All rows are scored on the same test sets and so are not independent: the error is that of the examples of the dev and test
    sets, which is the same for one row as for many. Holds: the 95 % interval of the mean difference over rows lies above zero.
    Fails: it lies below.
    """
    differences: dict[str, float] = {}
    errors: list[float] = []
    for folder in sorted(path.parent for path in (runs_root() / "tables").glob(f"*/{FILE}")):
        for row in _rows(folder):
            server = row.server_score(MEAN)
            if len(row.mean.of) < len(GLUE) or server is None or row.mean.mean is None:
                continue
            if (error := _examples_error(row)) is not None:
                differences[f"{folder.name} {row.name}"] = row.mean.mean - server
                errors.append(2**0.5 * error)  # a test set is taken to be as large as its dev set
    if not differences:
        needs = (
            "needs a table of all nine tasks whose experiment file has the GLUE server's scores, as in server: {ROW: {cola: 41.2}}"
        )
        return Verdict(NOT_RUN, needs)
    values = list(differences.values())
    of_rows = stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    # The largest error, not their root mean square over rows: all rows share the examples, so nothing averages out.
    tested = Difference(fmean(values), hypot(max(errors), of_rows), MANY, len(values))
    evidence = sided(tested)
    said = ", ".join(f"{name} {value:+.1f}" for name, value in differences.items())
    figures = f"dev − test: {said}; mean {tested.said(1)} by the examples of both sets"
    takes = "nothing that is trained: the examples of the dev and test sets are too few"
    return Verdict(evidence.verdict, figures, "rows with the server's scores", evidence.p, takes)


def _examples_error(row: Row) -> float | None:
    """Standard error of the mean of a row's columns due to the dev examples alone; None if a column was not run."""
    columns = [row.columns[name] for name in row.mean.of]
    known = [(each.mean, each.examples, each.metric or "") for each in columns if each.mean is not None and each.examples]
    return hypot(*(standard_error(*each) for each in known)) / len(known) if known and len(known) == len(columns) else None


def _rows(folder: Path) -> list[Row]:
    """The rows of a table; a damaged one is named on stderr and left out."""
    try:
        return read_table(folder, Table).rows
    except RelposError as error:
        say(f"relpos: {error}")
        return []

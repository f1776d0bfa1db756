"""What is left to measure about order, and about how many operations that takes; for a dry run."""

from __future__ import annotations

from collections.abc import Iterable

from relpos.measures.kept import END, is_measured, snapshots
from relpos.measures.sample import is_toy
from relpos.runs.cost import flops_per_token
from relpos.runs.networks import Network, resolve
from relpos.runs.run import Run
from relpos.tables.order_instrument import Instrument
from relpos.tables.plan import PlannedRow


def work_left(plan: Iterable[PlannedRow], instrument: Instrument) -> list[tuple[Run, float]]:
    """(pre-training, operations) for each of its networks, snapshots included, that is not measured yet."""
    left = []
    for run in {run.identity: run for row in plan for run in row.pretrainings}.values():
        networks = [(END, instrument)]
        if instrument.snapshots is not None:
            networks += [(share, instrument.snapshots) for share in sorted({*run.config["snapshots"], END})]
        subjects, toy = _subjects(run), is_toy(run.inputs["store"].config["data"])
        for share, applied in networks:
            subject = subjects.get(share, subjects.get(END))
            measures = [m for m in applied.measures if subject is None or not is_measured(subject, applied.dials, m)]
            # A training step counts three forward passes; measuring is one.
            operations = (
                flops_per_token(run) / 3 * sum(measure.tokens(applied.dials, toy, run.config["length"]) for measure in measures)
            )
            if measures:
                left.append((run, operations))
    return left


def _subjects(run: Run) -> dict[int, Network]:
    """Per cent of the steps → the network as it was then; empty for a run that is not finished."""
    if run.state != "finished":
        return {}
    subject = resolve(run.path)
    return snapshots(subject) | {END: subject}

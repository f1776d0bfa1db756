"""What is left to measure about order, and about how many operations that takes; for a dry run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from relpos.data.pairs import AutoPairs, PairSource
from relpos.data.shuffle import WINDOWS
from relpos.runs.cost import flops_per_token
from relpos.runs.order import is_measured, is_toy, snapshots
from relpos.runs.run import Run
from relpos.runs.trained import Trained, trained
from relpos.tables.order_instrument import END, Instrument
from relpos.tables.plan import PlannedRow


def work_left(plan: Iterable[PlannedRow], instrument: Instrument) -> list[tuple[Run, float]]:
    """(pre-training, operations) for each of its networks, snapshots included, that is not measured yet."""
    left = []
    tokens = _Tokens()
    for run in {run.identity: run for row in plan for run in row.pretrainings}.values():
        networks = [(END, instrument)]
        if instrument.snapshots is not None:
            networks += [(share, instrument.snapshots) for share in sorted({*run.config["snapshots"], END})]
        subjects = _subjects(run)
        for share, applied in networks:
            subject = subjects.get(share, subjects.get(END))
            measures = [measure for measure in applied.measures if not _is_measured(run, subject, applied, measure)]
            # A training step counts three forward passes; measuring is one.
            operations = flops_per_token(run) / 3 * sum(tokens.of(run, applied, measure) for measure in measures)
            if measures:
                left.append((run, operations))
    return left


def _subjects(run: Run) -> dict[int, Trained]:
    """Per cent of the steps → the network as it was then; empty for a run that is not finished."""
    if run.state != "finished":
        return {}
    subject = trained(run.path)
    return snapshots(subject) | {END: subject}


def _is_measured(run: Run, subject: Trained | None, instrument: Instrument, measure: str) -> bool:
    if subject is None:
        return False
    dials = replace(instrument.dials, measures=(measure,))
    return is_measured(subject, dials, _suited(instrument.pairs, run) if measure == "pairs" else None, measure)


def _suited(pairs: PairSource | AutoPairs, run: Run) -> PairSource | None:
    return pairs.suited(is_toy(run.inputs["store"].config["data"])) if isinstance(pairs, AutoPairs) else pairs


class _Tokens:
    """The tokens that a measure puts through a network, counted as `relpos.runs.cost` counts; pairs are read once."""

    def __init__(self) -> None:
        self.of_pairs: dict[str, float] = {}

    def of(self, run: Run, instrument: Instrument, measure: str) -> float:
        if measure == "shuffle":
            return float(instrument.dials.examples * run.config["length"] * (1 + len(WINDOWS)))
        source = _suited(instrument.pairs, run)
        if source is None:
            return 0.0
        key = str(source.identity())
        if key not in self.of_pairs:
            lengths = [len(re.findall(r"\w+|[^\w\s]", text)) for pair in source.pairs() for text in (pair.good, pair.bad)]
            self.of_pairs[key] = float(sum(n * (n + 2) for n in lengths))
        return self.of_pairs[key]

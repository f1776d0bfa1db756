"""`relpos compare`: runs beside each other on one page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from relpos.errors import say
from relpos.files import digest
from relpos.progress import bar
from relpos.ranges import Count, Names
from relpos.runs.run import runs_root
from relpos.tables.comparison import with_comparisons
from relpos.tables.experiment import Experiment
from relpos.tables.named_runs import compared_rows, differences, in_words, subjects_of, titled
from relpos.tables.paired_losses import PairedLoss, paired_losses, why_not
from relpos.tables.plan import PlannedRow
from relpos.tables.render import pictures, text
from relpos.tables.render.cell import MISSING, signed
from relpos.tables.render.side_tables import SideTable
from relpos.tables.render.view import view_of
from relpos.tables.row import Row
from relpos.tables.table import Table


def compare(network: Names, examples: Count) -> str:
    """Writes a table of the runs below `$RELPOS_RUNS/compare`, prints it, and returns its folder.

    The first run is the baseline with which the losses and the columns of the others are compared.

    Raises:
        RelposError: fewer than two runs are named, or one is not a finished pre-training.
    """
    subjects = titled(subjects_of(network))
    differing = differences(subjects)
    rows = [_with_overrides(row, place, differing) for place, row in enumerate(compared_rows(subjects))]
    name, question = " and ".join(subject.name for subject in subjects), f"They differ in: {in_words(differing)}."
    experiment = Experiment(name, Path(), question, {row.name: row.overrides for row in rows}, [], baseline=[subjects[0].name])
    # Networks that a user names have no experiment file; this stands for one with the first as baseline.
    rows = with_comparisons(rows, experiment, {})
    side_tables = []
    # Losses on different text cannot be subtracted; columns and curves are compared all the same.
    if reason := why_not(subjects):
        question += f" Their held-out losses are not compared: {reason}."
    else:
        with bar("held-out text", examples * sum(len(subject.pretrainings) for subject in subjects)) as advance:
            side_tables.append(_of_losses(paired_losses(subjects, examples, advance)))
    view = view_of(Table(name, question, rows), side_tables)
    folder = runs_root() / "compare" / _folder_name(subjects, examples)
    text.write(folder, view)
    pictures.draw_losses(folder / "curves.png", rows)
    text.terminal(view)
    say(f"one page: {folder / 'table.html'}")
    return str(folder)


def _with_overrides(row: Row, place: int, differing: Mapping[str, Sequence[str]]) -> Row:
    """The row with its values of the keys in which the runs differ."""
    return replace(row, overrides=[f"{key}={values[place]}" for key, values in differing.items() if values[place] != MISSING])


def _of_losses(losses: Sequence[PairedLoss]) -> SideTable:
    heads = ["nats per token", f"− {losses[0].name}", "95 % from", "to", "p", "over"]
    return SideTable(
        f"paired held-out loss, {losses[0].examples} examples", heads, [(paired.name, _texts(paired)) for paired in losses]
    )


def _texts(paired: PairedLoss) -> list[str]:
    loss, difference = f"{paired.loss:.4f}", paired.difference
    if difference is None:
        return [loss, *[MISSING] * 5]
    bounds = [signed(value, 4) for value in (difference.value, difference.low, difference.high)]
    return [loss, *bounds, f"{difference.p:.2g}", f"{difference.n} {paired.over}"]


def _folder_name(subjects: Sequence[PlannedRow], examples: int) -> str:
    content = [[run.identity for run in subject.pretrainings] for subject in subjects], examples
    name = re.sub(r"[^\w.=-]+", "-", "-".join(subject.name for subject in subjects))
    # Cut, because file systems allow names of 255 bytes; the hash tells the folders apart.
    return f"{name[:80]}-{digest(content)}"

"""`relpos compare`: runs beside each other on one page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from relpos.errors import RelposError, say
from relpos.files import digest
from relpos.measures.measure import Figure
from relpos.measures.sample import fills_answers
from relpos.progress import bar
from relpos.ranges import Count, Names
from relpos.results.gain import over_texts
from relpos.results.statistics import Difference, paired
from relpos.runs.networks import resolve
from relpos.runs.run import Run, runs_root
from relpos.tables.comparison import with_comparisons
from relpos.tables.experiment import Experiment
from relpos.tables.named_runs import by_seed, compared_rows, differences, in_words, subjects_of, text_of, titled
from relpos.tables.plan import PlannedRow
from relpos.tables.render import pictures, text
from relpos.tables.render.cell import MISSING, signed
from relpos.tables.render.side_tables import SideTable
from relpos.tables.render.view import view_of
from relpos.tables.row import Row
from relpos.tables.table import Table

SHARED = ("packing", "length")
"""Dials of a pre-training that decide, together with its text, what a held-out example is."""


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
            side_tables.append(losses_table(subjects, examples, advance))
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


def why_not(subjects: Sequence[PlannedRow]) -> str | None:
    """Why losses per token cannot be paired; None where they can."""
    runs = [run for subject in subjects for run in subject.pretrainings]
    # Another tokenizer cuts text into other tokens: nats per token would count other things.
    if len({text_of(run) for run in runs}) > 1:
        return "they were trained on different text or tokenizers, whose losses per token are not of one kind"
    for key in SHARED:
        if len({run.meaning[key] for run in runs}) > 1:
            return f"their held-out examples differ in {key}"
    if len({fills_answers(run.meaning) for run in runs}) > 1:
        return "some fill in answers and some do not, so that other tokens are predicted"
    return None


def losses_table(subjects: Sequence[PlannedRow], examples: int, advance: Callable[[int], object]) -> SideTable:
    """The losses of the subjects on at most `examples` held-out examples, each with its difference to the first subject's.

    `advance` is called with the number of examples in each portion done.
    """
    losses = [{seed: losses_of(run, examples, advance) for seed, run in by_seed(subject).items()} for subject in subjects]
    lines = []
    for subject, figures in zip(subjects, losses, strict=True):
        difference, over = (None, "") if figures is losses[0] else between(figures, losses[0])
        texts = [MISSING] * 5
        if difference is not None:
            bounds = [signed(value, 4) for value in (difference.value, difference.low, difference.high)]
            texts = [*bounds, f"{difference.p:.2g}", f"{difference.n} {over}"]
        lines.append((subject.name, [f"{fmean(figure.value for figure in figures.values()):.4f}", *texts]))
    heads = ["nats per token", f"− {subjects[0].name}", "95 % from", "to", "p", "over"]
    return SideTable(f"paired held-out loss, {next(iter(losses[0].values())).examples} examples", heads, lines)


def between(ours: Mapping[int, Figure], first: Mapping[int, Figure]) -> tuple[Difference | None, str]:
    """The difference of two subjects' losses by pre-training seed, and what it is tested over: the seeds (Student's paired test)
    where they have two or more in common, else held-out documents: then it says how two networks differ, and nothing about other
    seeds.
    """
    # Seeds before examples: what differs from seed to seed is part of the question, if there is a way to know it.
    if len(seeds := sorted(ours.keys() & first.keys())) > 1:
        return paired([ours[seed].value for seed in seeds], [first[seed].value for seed in seeds]), "seeds"
    return over_texts([next(iter(ours.values()))], [next(iter(first.values()))]), "documents"


def losses_of(run: Run, examples: int, advance: Callable[[int], object] = lambda _: None) -> Figure:
    """The loss of a network on its held-out text, by example, in float32, under the masks that every run is scored with: BERT's, or
    the answers where it was trained to fill in these.

    Raises:
        RelposError: its token store is no longer there.
    """
    from relpos.analysis.shuffle_gap import heldout_losses
    from relpos.data.objective import answered, masked
    from relpos.data.store import Store

    folder = Path(run.record["inputs"]["store"])
    if not (folder / "record.json").is_file():
        raise RelposError(f"{run.name}: its text {folder} is no longer there")
    # The run's own dials decide what an example is; `why_not` has seen that all subjects agree.
    store = Store(folder)
    heldout = store.examples("heldout", run.meaning["packing"], run.meaning["length"], examples)
    objective = answered if fills_answers(run.meaning) else masked
    summed, predicted = heldout_losses(resolve(run.path).masked_lm(), heldout, advance, objective)
    parts = np.stack([summed, predicted])
    return Figure(float(summed.sum() / predicted.sum()), parts=parts, documents=heldout.documents().tolist())


def _folder_name(subjects: Sequence[PlannedRow], examples: int) -> str:
    content = [[run.identity for run in subject.pretrainings] for subject in subjects], examples
    name = re.sub(r"[^\w.=-]+", "-", "-".join(subject.name for subject in subjects))
    # Cut, because file systems allow names of 255 bytes; the hash tells the folders apart.
    return f"{name[:80]}-{digest(content)}"

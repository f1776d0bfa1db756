"""`relpos reproduce`: makes the runs and the table of an experiment file.

While the runs are made, each row is printed once its pre-trainings are finished and measured.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from relpos.data.own_task import is_task_file
from relpos.errors import RelposError, printable, say
from relpos.launch.engine import Debug, Engine, Local, run_all
from relpos.launch.jobs import Job, Standing
from relpos.launch.progress import Picture
from relpos.places import expanded
from relpos.progress import console
from relpos.ranges import Count, Names, Natural, Seeds
from relpos.readers import Plain, besides
from relpos.runs.cost import duration
from relpos.runs.run import Run, closure
from relpos.runs.shelf import LOG, last_lines
from relpos.trust import instantiate

if TYPE_CHECKING:
    from relpos.tables.changes import Changes
    from relpos.tables.experiment import Experiment
    from relpos.tables.measurements import Instrument
    from relpos.tables.plan import PlannedRow
    from relpos.tables.table import Row

WIDTH = 18
"""Characters of a column of `arrivals`."""


def reproduce(
    table: str,
    rows: Names | None,
    overrides: Sequence[str],
    engine: Plain,
    stages: Names | None,
    seeds: Seeds | None,
    pretrain_seeds: Seeds | None,
    tasks: Names | None,
    workers: Count | None,
    retries: Natural,
    dry_run: bool,
) -> str:
    """Plans an experiment, makes its missing runs, prints the table and returns its folder.

    Raises:
        RelposError: something in the file or the overrides is wrong, or runs failed (raised after
            the others are done).
        KeyboardInterrupt: the process was told to stop; the same command goes on.
    """
    # Imported here, because arguments are checked by this signature before torch is needed.
    from relpos.tables import experiment, measurements, plan
    from relpos.tables.changes import Changes, claim_folder, folder_of

    paths = tasks and list(tasks)
    for place, task in enumerate(tasks or ()):
        # The path of the command line starts here, not at the experiment file.
        if paths and is_task_file(task):
            paths[place] = str(expanded(task).absolute())
    keys: dict[str, int | Sequence[object] | None]
    keys = {"seeds": seeds, "pretrain_seeds": pretrain_seeds, "tasks": paths}
    # None leaves the file's own value.
    typed = {key: value for key, value in keys.items() if value is not None}
    changes = Changes(rows, typed, overrides)
    file = experiment.load(table, changes.keys)
    if (file.parameters or file.properties) and (rows or overrides or stages or changes.keys):
        raise RelposError(
            f"table {file.name} trains nothing: rows, stages, tasks, seeds and "
            f"overrides change nothing there"
        )
    if file.parameters:
        from relpos.commands import params

        return params.show(file.parameters)
    if file.properties:
        from relpos.config.compose import called

        return called("analyze", ["kind=properties"])
    planned = plan.plan_table(file, rows, overrides)
    instrument = measurements.instrument(file, overrides, planned)
    runs = plan.runs_of(planned, measurements.runs_of(planned, instrument))
    runs = plan.needed(plan.of_stages(runs, stages))
    identities = {run.identity for row in planned for run in row.runs}
    folder = folder_of(file, changes, identities)
    if dry_run:
        show_plan(file, planned, runs)
        return str(folder)
    if "threads" in engine and engine["threads"] is None:
        engine = engine | {"threads": file.threads}
    chosen: Engine = instantiate(engine, "engine")
    refuse(planned, runs, is_here=isinstance(chosen, Debug | Local))
    claim_folder(folder, file)
    # The table is made of the finished runs even if others failed, and the failure is raised
    # afterwards.
    failed = run_all(runs, folder, chosen, retries, arrivals(planned, instrument, runs))
    # Meanwhile another command may have written a table into the folder.
    folder = folder_of(file, changes, identities, folder)
    show(file, planned, folder, instrument, changes)
    if failed:
        for run in failed:
            say(f"relpos: {run.stage} {run.name} failed: {run.record['error']} ({run.path})")
            # The error alone often does not say where it arose; the whole log may have thousands of
            # lines.
            for line in last_lines(run.path / LOG):
                say(f"    {line}")
        print(printable(folder))
        waiting = sum(run.state not in ("finished", "failed") for run in runs)
        behind = f", {waiting} wait for them" if waiting else ""
        raise RelposError(
            f"{len(failed)} of {len(runs)} runs failed{behind}; the same command tries them again"
        )
    return str(folder)


def show_plan(file: Experiment, rows: Sequence[PlannedRow], runs: list[Run]) -> None:
    """Prints the picture of `relpos status`, the device-hours left, and the inputs that are
    missing."""
    screen = console()
    if file.network and not any(row.runs for row in rows):
        tunings = (
            f"{len(rows)} rows × {len(file.tasks)} tasks × {len(file.seeds)} fine-tuning seeds"
        )
        reason = "nothing can be planned: the checkpoint to start from is not at hand, network=FOLDER names one"
        screen.print(Text(f"{file.name}: {reason}; {tunings}"), soft_wrap=True)
        return
    standing = Standing(Job(runs))
    standing.look()
    picture = Picture(standing, file.name)
    screen.print(picture.whole())
    unfinished = [run for run in runs if standing.states[run.identity] != "finished"]
    lines = ["nothing is left to train"]
    if operations := sum(map(picture.estimate.operations, unfinished)):
        seconds = picture.estimate.seconds(unfinished)
        hours = "`relpos cost` measures how many a second" if seconds is None else duration(seconds)
        lines = [f"{operations:.2g} operations left: {hours}"]
    try:
        for run in unfinished:
            for needed in reversed(closure([run])):
                needed.refuse_absent()
    except RelposError as error:
        lines.append(str(error))
    screen.print(Text("\n".join(lines)), soft_wrap=True)


def refuse(rows: Sequence[PlannedRow], runs: Collection[Run], is_here: bool) -> None:
    """Refuses a row whose network cannot be built, before runs of other rows are made.

    Args:
        rows: of the table.
        runs: the runs that are to be made.
        is_here: whether this machine makes them.

    Raises:
        RelposError: the message names the row.
    """
    to_make = {run.identity for run in runs}
    for row in rows:
        # The other runs of the row differ from these in seed and task alone.
        first = row.pretrainings[:1] + [tuning.run for tuning in row.tunings[:1]]
        for run in first:
            try:
                if run.identity in to_make:
                    for needed in closure([run]):
                        needed.refuse_impossible(is_here)
            except RelposError as error:
                raise RelposError(f"row {row.name!r}: {error}") from error


def arrivals(
    plan: Sequence[PlannedRow],
    instrument: Instrument | None,
    runs: Collection[Run],
) -> Callable[[Run], None]:
    """Returns a function that prints the rows of a plan on stderr, below each other, with the
    columns that the instrument gives at the end of the pre-trainings.

    It is called with each settled run, and prints the rows of which this pre-training or
    measurement was the last to finish.
    """
    from relpos.tables.measurements import runs_of
    from relpos.tables.render.view import view_of
    from relpos.tables.rows import rows_of
    from relpos.tables.table import Table

    at_end = instrument and replace(instrument, snapshots=None)
    waiting: list[tuple[PlannedRow, dict[str, Run]]] = []
    identities = {run.identity for run in runs}
    for row in plan:
        measuring = [run for run in runs_of([row], at_end) if run.identity in identities]
        awaited = {run.identity: run for run in (*row.pretrainings, *measuring)}
        if awaited:
            waiting.append((replace(row, tunings=[]), awaited))
    width = max((len(row.name) for row, _ in waiting), default=0)
    rows: list[Row] = []
    heads: list[str] = []

    def settled(run: Run) -> None:
        nonlocal heads
        for entry in list(waiting):
            row, awaited = entry
            if run.identity in awaited and all(of.state == "finished" for of in awaited.values()):
                waiting.remove(entry)
                rows.extend(rows_of([row], at_end))
                view = view_of(Table("", "", rows))
                [*_, (_, (_, *cells))] = view.lines
                lines = [[row.name, *(cell.text for cell in cells)]]
                if heads != view.heads:  # a column is there once a row has a number in it
                    heads = view.heads
                    lines.insert(0, ["row", *heads[2:]])
                for first, *columns in lines:
                    texts = "".join(f"{text:>{WIDTH}}" for text in columns)
                    say(f"  {first:<{width}}{texts}")

    return settled


def show(
    experiment: Experiment,
    plan: list[PlannedRow],
    folder: Path,
    instrument: Instrument | None,
    changes: Changes,
) -> None:
    """Makes the table from the runs' folders, writes it and prints it."""
    from relpos.tables import choice, comparison
    from relpos.tables.changes import is_changed
    from relpos.tables.experiment import printed_numbers
    from relpos.tables.render import pictures, text
    from relpos.tables.render.view import view_of
    from relpos.tables.rows import rows_of, with_heldout_lengths
    from relpos.tables.table import Table, made_with

    printed, server = printed_numbers(experiment), experiment.server
    compared = [row.name for row in plan if row.name in {*printed, *server}]
    changed = [name for name in compared if is_changed(experiment, name, changes.overrides)]
    if changed:
        printed, server = besides(printed, changed), besides(server, changed)
        say(
            f"relpos: no printed numbers beside {', '.join(changed)}: they are not those of "
            f"{' '.join(changes.shown)}"
        )
    experiment = replace(experiment, server=server)
    rows = comparison.with_comparisons(rows_of(plan, instrument), experiment, printed)
    rows = with_heldout_lengths(rows, plan, experiment.lengths)
    table = Table(
        name=experiment.name,
        question=experiment.question,
        rows=rows,
        statistic=experiment.statistic,
        tuned=experiment.tuned,
        made=made_with(plan),
        changes=changes.shown,
    )
    # One view for all formats, so that page, terminal and files say the same.
    view = view_of(table, choice.by_choice(rows, experiment))
    text.write(folder, view)
    pictures.draw(folder, rows)
    if experiment.primary:
        from relpos.commands.claims import table_page
        from relpos.files import write_text

        write_text(folder / "claims.txt", table_page(experiment.claims, experiment.primary))
    text.terminal(view)

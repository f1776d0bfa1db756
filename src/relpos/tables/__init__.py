"""An experiment file → its runs → its table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from relpos.errors import RelposError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from relpos.tables.experiment import Experiment
    from relpos.tables.plan import Row


def gathered(words: Sequence[str]) -> list[str]:
    """Command-line words of `reproduce`: those that are not its own keys are for the rows, and go into `words=[…]`.

    So `relpos reproduce table=real_mini data.root=FOLDER` needs no brackets and no quotes.

    Raises:
        RelposError: `words=[…]` is there as well.
    """
    own = ("table", "rows", "words", "workers", "dry_run", "hydra")
    for_rows = [
        word for word in words if "=" in word and not word.startswith("-") and word.partition("=")[0].split(".")[0] not in own
    ]
    if not for_rows:
        return list(words)
    if any(word.startswith("words=") for word in words):
        raise RelposError(f"{for_rows[0]}: give words for the rows by themselves or in words=[…], not both ways")
    quoted = ",".join("'" + word.replace("'", "\\'") + "'" for word in for_rows)
    return [*(word for word in words if word not in for_rows), f"words=[{quoted}]"]


def reproduce(cfg: DictConfig) -> str:
    """`relpos reproduce`: plans, runs what is missing, prints the table; returns its folder.

    Args:
        cfg: `table`, `rows`, `words`, `workers`, `dry_run`.

    Raises:
        RelposError: something in the file or the words is wrong; or runs failed, after the others are done.
        KeyboardInterrupt: asked to stop; the same command goes on.
    """
    from relpos.runs.run import runs_root
    from relpos.tables import dry_run, engine, experiment, plan

    given = experiment.load(str(cfg.table))
    rows = plan.plan_table(given, list(cfg.rows) if cfg.rows is not None else None, [str(word) for word in cfg.words])
    runs = plan.runs_of(rows)
    folder: Path = runs_root() / "tables" / given.name
    if cfg.dry_run:
        print(dry_run.describe(given.name, rows, runs))
        return str(folder)
    failed = engine.run_all(runs, folder, cfg.workers or given.workers, given.threads)
    show(given, rows, folder)
    if failed:
        for run in failed:
            print(f"relpos: {run.stage} {run.name} failed: {run.record['error']} ({run.path})", file=sys.stderr)
        print(folder)
        raise RelposError(f"{len(failed)} of {len(runs)} runs failed; the same command tries them again")
    return str(folder)


def show(given: Experiment, rows: list[Row], folder: Path) -> None:
    """Writes the table from what the runs' folders say, and prints it."""
    from relpos.tables import checks, curves, render, table

    content = table.table_of(rows, table.printed_numbers(given))
    verdicts = checks.evaluate(given.checks, content)
    whole = {"name": given.name, "question": given.question, "rows": content, "checks": verdicts}
    render.write(folder, whole)
    curves.draw(folder / "curves.png", content)
    render.terminal(whole)

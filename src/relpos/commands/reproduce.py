"""`relpos reproduce`: an experiment file → its runs → its table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos.errors import RelposError, nearest

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from relpos.launch.engine import Engine
    from relpos.runs.run import Run
    from relpos.tables.experiment import Experiment
    from relpos.tables.order_columns import Instrument
    from relpos.tables.plan import PlannedRow
    from relpos.tables.row import Row


OWN = ("table", "rows", "stages", "seeds", "pretrain_seeds", "words", "workers", "retries", "dry_run", "engine", "every", "hydra")
"""Keys of `reproduce` and `status`."""


def gathered(words: Sequence[str]) -> list[str]:
    """Command-line words of `reproduce` and `status`: those that are not its own keys are for the rows, and go into `words=[…]`.

    So `relpos reproduce table=real_mini data.root=FOLDER` needs no brackets and no quotes.

    Raises:
        RelposError: `words=[…]` is there as well; or a word is none of a row's and close to one of these (`retrys=2`).
    """
    keys = {word: word.lstrip("+~").partition("=")[0].split(".")[0] for word in words if "=" in word and not word.startswith("-")}
    for_rows = [word for word, key in keys.items() if key not in OWN]
    for word in for_rows:
        _refuse_slip(keys[word])
    for place, word in enumerate(words):
        if "=" not in word and not word.startswith("-") and not (place and words[place - 1].startswith("-")):
            raise RelposError(f"{word}: words have the form KEY=VALUE. Did you mean table={word}?")
    if not for_rows:
        return list(words)
    if any(word.startswith("words=") for word in words):
        raise RelposError(f"{for_rows[0]}: give words for the rows by themselves or in words=[…], not both ways")
    quoted = ",".join("'" + word.replace("'", "\\'") + "'" for word in for_rows)
    return [*(word for word in words if word not in for_rows), f"words=[{quoted}]"]


def _refuse_slip(key: str) -> None:
    from relpos.runs.config import keys_of
    from relpos.tables.experiment import STAGES

    if "Did you mean" in (hint := nearest(key, OWN)) and key not in {*STAGES, *keys_of("pretrain"), *keys_of("finetune")}:
        raise RelposError(f"unknown key {key!r}.{hint}")


def reproduce(cfg: DictConfig) -> str:
    """`relpos reproduce`: plans, runs what is missing, prints the table; returns its folder.

    Args:
        cfg: `table`, `rows`, `stages`, `seeds`, `pretrain_seeds`, `words`, `engine`, `retries`, `dry_run`.

    Raises:
        RelposError: something in the file or the words is wrong; or runs failed, after the others are done.
        KeyboardInterrupt: asked to stop; the same command goes on.
    """
    from relpos.launch import engine
    from relpos.runs.config import names
    from relpos.runs.run import runs_root
    from relpos.tables import dry_run, experiment, order_columns, plan

    given = experiment.load(str(cfg.table), _seeds(cfg))
    if given.parameters:
        from relpos.commands.params import show as show_parameters

        return show_parameters(given.parameters)
    words = names(cfg.words) or []
    rows = plan.plan_table(given, names(cfg.rows), words)
    instrument = order_columns.instrument(given, words, rows)
    runs = plan.of_stages(plan.runs_of(rows), names(cfg.stages))
    folder: Path = runs_root() / "tables" / given.name
    if cfg.dry_run:
        print(dry_run.describe(given.name, rows, runs, instrument))
        return str(folder)
    failed = engine.run_all(plan.needed(runs), folder, engine_of(cfg, given), cfg.retries)
    show(given, rows, folder, instrument)
    if failed:
        for run in failed:
            tell(run)
        print(folder)
        waiting = sum(run.state not in ("finished", "failed") for run in runs)
        behind = f", {waiting} wait for them" if waiting else ""
        raise RelposError(f"{len(failed)} of {len(runs)} runs failed{behind}; the same command tries them again")
    return str(folder)


def _seeds(cfg: DictConfig) -> dict[str, Any]:
    """Keys of the experiment file that `seeds=` and `pretrain_seeds=` replace."""
    from omegaconf import OmegaConf

    content: Any = OmegaConf.to_container(cfg, resolve=True)
    return {key: content[key] for key in ("seeds", "pretrain_seeds") if content[key] is not None}


def engine_of(cfg: DictConfig, given: Experiment) -> Engine:
    """The engine that `engine=…` names; workers and threads, where it does not say, are those of the experiment file."""
    from omegaconf import OmegaConf

    from relpos.runs.config import instantiate

    node: Any = OmegaConf.to_container(cfg.engine, resolve=True)
    own = {key: getattr(given, key) for key in ("workers", "threads") if key in node and node[key] is None}
    engine: Engine = instantiate(node | own)
    return engine


def tell(run: Run) -> None:
    """Why a run failed, with the last lines of its log."""
    from relpos.runs.log import LOG, last_lines

    print(f"relpos: {run.stage} {run.name} failed: {run.record['error']} ({run.path})", file=sys.stderr)
    for line in last_lines(run.path / LOG):
        print(f"    {line}", file=sys.stderr)


def show(given: Experiment, plan: list[PlannedRow], folder: Path, instrument: Instrument | None) -> None:
    """Writes the table from what the runs' folders say, and prints it; nothing where the runs only sleep.

    Args:
        instrument: measures the columns about order; None: there are none.
    """
    from relpos.tables import checks, choice, columns, comparison, heldout_lengths, order_columns, scores
    from relpos.tables.render import curves, multipliers, snapshots, text, write
    from relpos.tables.render.view import view_of
    from relpos.tables.table import Table

    if not any(row.pretrainings or row.tunings or row.needs for row in plan):
        return
    rows = order_columns.with_order(columns.rows_of(plan), plan, instrument)
    rows = scores.with_scores(rows, folder)
    rows = comparison.with_comparisons(rows, given, columns.printed_numbers(given))
    rows = heldout_lengths.with_heldout_lengths(rows, plan, given.lengths)
    outcomes = checks.evaluate(given.checks, rows)
    table = Table(
        given.name, given.question, rows, outcomes, given.statistic, given.split, given.baseline, given.claims, given.tuned
    )
    view = view_of(table, choice.by_choice(rows, given))
    write.write(folder, view)
    curves.draw(folder / "curves.png", rows)
    snapshots.draw(folder / "snapshots.png", rows)
    if given.primary is not None:
        _write_claims(given, rows, folder)
    multipliers.draw(folder / "position_lr.png", rows)
    text.terminal(view)


def _write_claims(given: Experiment, rows: Sequence[Row], folder: Path) -> None:
    """`claims.txt`, and the figure of the claims along the training where the rows have snapshots."""
    from relpos.claims import claim, over_training
    from relpos.commands.claims import chosen, of_table
    from relpos.files import write_text

    assert given.primary is not None
    write_text(folder / "claims.txt", of_table(given.claims, given.primary))
    over_training.draw(folder, rows, chosen(claim.load("all"), given.claims), given.primary)

"""Runs of several lengths that share their first steps: with `recipe.schedule=wsd` a scaling curve
costs one training.

Until its rate falls, a pre-training does not depend on how many steps follow: every draw is a
function of the step. Each such run keeps the checkpoint of that moment in `trunk/`. It is also, bit
for bit, where a longer run of otherwise the same meaning would be at that step, so that a longer
run begins there.
"""

from __future__ import annotations

import json
from pathlib import Path

from relpos.errors import RelposError, say
from relpos.files import write_text
from relpos.readers import Plain, besides
from relpos.runs.run import Run, read_record, runs_root
from relpos.runs.shelf import LOGGED, input_identities, is_current, logged
from relpos.train.checkpoint_files import by_age, newest
from relpos.train.optim import Recipe

FOLDER = "trunk"
"""In a run's folder: its checkpoint at the last step of the constant rate."""


def find(run: Run, end: int, threads: int, microbatch: int) -> Path | None:
    """The checkpoint in the `trunk/` of another run at which this one can begin, that of the
    farthest step; None where there is none.

    Results depend on threads and micro-batch in their last bits, so that the other run must have
    the same. Of machine, kernel and torch nothing is asked: a run goes on from its own checkpoint
    elsewhere, too.
    """
    from relpos.train.checkpoint import snapshot_step  # loads Lightning

    steps = run.config.steps or 0
    # a snapshot needs its own training
    end = min([end, steps, *(snapshot_step(share, steps) - 1 for share in run.config.snapshots)])
    inputs = {name: other.identity for name, other in run.inputs.items()}
    wanted = inputs, _shared(run.meaning)
    dials = {"threads": threads, "microbatch": microbatch, "processes": 1}
    candidates = []
    for folder in (runs_root() / run.stage).glob(f"{run.name}-*"):
        # Finished or not: the checkpoint in `trunk/` is whole as soon as it is there.
        if folder == run.path or not by_age(folder / FOLDER):
            continue
        try:
            record = read_record(folder)
        except (
            RelposError
        ) as error:  # another run's file is no reason to fail: this one can do without
            say(f"relpos: {error}")
            continue
        if not is_current(record):
            continue
        step = Recipe.of(record.meaning["recipe"]).decay_start(record.meaning["steps"])
        alike = (input_identities(record), _shared(record.meaning)) == wanted
        # Starts that ended before any training have computed nothing.
        begun = [start for start in record.starts if "from_step" in start]
        same_bits = all(dials.items() <= start.items() for start in begun)
        if alike and step <= end and begun and same_bits:
            candidates.append((step, folder))
    # The farthest first; a nearer one serves where that checkpoint is damaged.
    for _, folder in sorted(candidates, reverse=True):
        try:
            if checkpoint := newest(folder / FOLDER):
                logged(folder)  # as `copy_log` will read it
                return checkpoint
        except RelposError as error:
            say(f"relpos: {error}")
    return None


def copy_log(folder: Path, step: int, run: Run) -> None:
    """Gives a run the log of the steps that it shares with that in `folder`."""
    lines = (line for line in logged(folder) if line["step"] <= step)
    write_text(run.path / LOGGED, "".join(f"{json.dumps(line)}\n" for line in lines))


def _shared(meaning: Plain) -> Plain:
    """What runs that share their first steps have in common."""
    return besides(meaning, ["steps"]) | {"recipe": besides(meaning["recipe"], ["decay"])}

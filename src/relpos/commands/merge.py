"""`relpos merge`: finished runs of other machines → this runs folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig


def merge(cfg: DictConfig) -> str:
    """Copies the finished runs, says on stderr how many; returns `$RELPOS_RUNS`.

    Args:
        cfg: `from` (runs folders), `weights`.

    Raises:
        RelposError: see `relpos.runs.merge.merge`.
    """
    from relpos.runs.config import names
    from relpos.runs.merge import merge as merge_runs
    from relpos.runs.run import runs_root

    done = merge_runs([Path(folder).expanduser() for folder in names(cfg["from"]) or []], cfg.weights)
    said = f"{done.copied} trained runs copied, {done.known} were here already"
    print(f"relpos: {said}, {done.unfinished} unfinished ones left out" if done.unfinished else f"relpos: {said}", file=sys.stderr)
    return str(runs_root())

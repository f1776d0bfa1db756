"""`debug=true`: a training run of ten steps, in this process, that stops where a gradient becomes NaN.

It is never taken for the run that it rehearses: it lies below `$RELPOS_RUNS/debug` and begins anew each time. What it starts from
(pre-training, intermediate task) is a rehearsal of ten steps as well, and kept; toy language, tokenizer and store are shared.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from relpos.runs.lock import locked
from relpos.runs.run import Run

STEPS = 10


def shortened(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with the dials of a rehearsal; as it is where `debug` is not set."""
    if not content.get("debug"):
        return content
    speed = content["speed"] | {"devices": 1, "nodes": 1, "detect_anomaly": True}
    return {**content, "steps": STEPS, "evaluations": 1, "log_every": 1, "speed": speed}


def clear(run: Run) -> None:
    """Empties the folder of a rehearsal but for its lock."""
    # Under the lock: another process may be at the same rehearsal.
    with locked(run.path):
        for path in run.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            # The lock's file stays while the lock is held, see lock.py.
            elif not path.name.startswith("claim."):
                path.unlink()

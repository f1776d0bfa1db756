"""A run that sleeps: for tests of launchers, which plan it from an experiment file. `relpos --help` does not list it."""

from __future__ import annotations

from typing import Any, Literal

from relpos import run
from relpos.ranges import Natural, NotNegative


def noop(stage: Literal["noop"], seed: Natural, label: str | None, seconds: NotNegative, failures: Natural) -> str:
    """Executes the run; returns the path of its folder."""
    config: dict[str, Any] = {"stage": stage, "seed": seed, "label": label, "seconds": seconds, "failures": failures}
    return str(run(config).path)

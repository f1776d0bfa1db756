"""A configuration → the run that it names, with the runs that must be finished before it. Nothing
is executed; files are hashed."""

from __future__ import annotations

from omegaconf import DictConfig

from relpos.config.compose import resolved, unresolved
from relpos.readers import Plain
from relpos.runs.run import Run, stage_class
from relpos.runs.shelf import checked_metric


def plan(cfg: DictConfig | Plain) -> Run:
    """The run that a checked configuration names.

    Raises:
        RelposError: the command of `cfg` makes no run; a file that it needs is missing; or it will
            have no figure `metric`.
    """
    content = unresolved(cfg)
    stage: type[Run] = stage_class(str(content["stage"])) if "stage" in content else Run
    run = stage.plan(content)
    if content.get("metric"):
        # behind a training it would come too late
        checked_metric(str(resolved(content)["metric"]), run.figures())
    return run

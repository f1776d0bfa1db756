"""Where a run's text and tasks come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relpos.runs.config import instantiate

if TYPE_CHECKING:
    from relpos.runs.run import Run


def source_of(run: Run) -> Any:
    """The source that `data` describes; for the toy language, the files of its run."""
    source = instantiate(run.config["data"])
    return source.at(run.inputs["toy"].path) if "toy" in run.inputs else source

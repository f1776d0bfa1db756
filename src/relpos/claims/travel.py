"""How far position parameters could move in the training behind a verdict: if not far, this alone may make the rows differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relpos.claims.finding import NOT_RUN, Finding, joined
from relpos.claims.scales import Scales
from relpos.tables.verdict import FAR


def with_travel(findings: Sequence[Finding], rows: Sequence[str], scales: Scales) -> list[Finding]:
    """The findings, each with a line where parameters of these rows could not move far.

    Args:
        findings: of one claim.
        rows: the rows that it compares.
        scales: the scales at which it was tested.
    """
    return [replace(finding, figures=joined([finding.figures, _note(finding, rows, scales)])) for finding in findings]


def _note(finding: Finding, rows: Sequence[str], scales: Scales) -> str:
    """The line; empty if parameters could move far enough, or if it is not known how far."""
    if finding.verdict == NOT_RUN:
        return ""
    concerned = [scale for scale in scales if scale.label in finding.scale]
    travels = [
        travel
        for scale in concerned
        for row in rows
        if row != "none" and row in scale.folders and (travel := scale.travel(row)) is not None
    ]
    if not travels or min(travels) >= FAR:
        return ""
    return (
        f"position parameters could move by at most about {min(travels):.2g} (the sum of their learning rates); "
        f"below {FAR:g} a scheme may lose by that alone: more steps, or recipe.position_lr"
    )

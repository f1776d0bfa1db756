"""How far positions could move in the training behind a verdict: where it is not far, rows may differ in that alone."""

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
        rows: that it compares.
        scales: at which it was tested.
    """
    return [replace(finding, figures=joined([finding.figures, _note(finding, rows, scales)])) for finding in findings]


def _note(finding: Finding, rows: Sequence[str], scales: Scales) -> str:
    """Empty where parameters could move far enough, and where nothing is known of it."""
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

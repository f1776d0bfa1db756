"""At which point of the training does each claim appear?

Computed from the snapshots that a table has measured (`order_snapshots`). For each claim that compares rows: the difference of each
of its pairs at each share of the steps, with a 95 % interval over pre-trainings from the pooled errors of all rows at that share.
The intervals are pointwise: each for its own share, not a band for the whole curve. Beside them stands how far the order of the
rows agrees with the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relpos import style
from relpos.claims.claim import MEASURES, Claim
from relpos.claims.comparisons import higher, not_higher, not_lower
from relpos.files import write_json
from relpos.results.contrast import difference
from relpos.results.gain import Contrast
from relpos.results.statistics import Difference
from relpos.tables.ranking import Agreement, agreements, units
from relpos.tables.row import Row

OF_ONE_SCALE = (higher, not_higher, not_lower)
"""The rules that compare rows of one scale, as those of a table are."""
NAME = "claims_over_training"
"""Name of the figure's file and of the file with its numbers."""
Course = tuple[Claim, dict[Contrast, dict[int, Difference]]]
"""A variant of a claim, and (first, second) → share of the steps → difference in nats, higher being better."""


def courses(rows: Sequence[Row], claims: Sequence[Claim], measure: str) -> list[Course]:
    """The variants in this measure (`loss` or `order`), each with the contrasts that the table has snapshots of, if it has any.

    The rows are those of a table, named as in `experiments/claims/rows.yaml`; the claims come with their variants.
    """
    of_rows = units(rows, measure)
    result = []
    for claim in claims:
        # Snapshots have losses and shuffle gaps and no scores, so that only variants can be followed.
        if claim.measure != measure or claim.tester.rule not in OF_ONE_SCALE:
            continue
        if by_pair := {pair: by_share for pair in claim.tester.contrasts if (by_share := _by_share(of_rows, *pair))}:
            result.append((claim, by_pair))
    return result


def draw(folder: Path, rows: Sequence[Row], claims: Sequence[Claim], measure: str) -> None:
    """Writes the figure and its numbers, `claims_over_training.png` and `.json`; nothing where no snapshot was measured."""
    claims_courses, ranks = courses(rows, claims, measure), agreements(rows, measure)
    if not claims_courses:
        return
    write_json(folder / f"{NAME}.json", {"measure": measure} | _plain(claims_courses, ranks))
    _figure(folder / f"{NAME}.png", claims_courses, ranks, measure)


def _by_share(of_rows: Mapping[int, Mapping[str, Mapping[int, float]]], first: str, second: str) -> dict[int, Difference]:
    """Share → first − second, where it can be tested."""
    # All rows of a share go along: their spread at that time says what the error is, and early it is another than late.
    having = {share: by_row for share, by_row in of_rows.items() if by_row.get(first) and by_row.get(second)}
    tested = {share: difference(by_row, first, second) for share, by_row in having.items()}
    return {share: each for share, each in tested.items() if each}


def _plain(claims_courses: Sequence[Course], ranks: Mapping[int, Agreement]) -> dict[str, Any]:
    return {
        "claims": {
            claim.id: {
                str(pair): {
                    str(share): {"value": each.value, "interval": [each.low, each.high], "freedom": each.freedom, "seeds": each.n}
                    for share, each in by_share.items()
                }
                for pair, by_share in by_pair.items()
            }
            for claim, by_pair in claims_courses
        },
        "ranks": {
            str(share): {"rho": each.rho, "interval": [each.low, each.high], "rows": each.rows} for share, each in ranks.items()
        },
    }


def _figure(path: Path, claims_courses: Sequence[Course], ranks: Mapping[int, Agreement], measure: str) -> None:
    panels = len(claims_courses) + bool(ranks)
    figure, every = style.grid(panels, 3, 4.2, 3.2)
    for axes, (claim, by_pair) in zip(every, claims_courses, strict=False):
        for place, (pair, by_share) in enumerate(by_pair.items()):
            look = style.look(place, 1.5)
            axes.plot(list(by_share), [each.value for each in by_share.values()], marker=".", label=str(pair), **look)
            style.band(axes, by_share, [(each.low, each.high) for each in by_share.values()], look["color"])
        axes.axhline(0, color="0.4", linewidth=0.8)
        axes.axhline(claim.variants[measure], color="0.4", linewidth=0.8, linestyle="--")
        axes.set_title(claim.id, fontsize=9)
        axes.legend(fontsize=7, frameon=False)
        axes.set_ylabel("nats", fontsize=8)
    if ranks:
        axes = every[len(claims_courses)]
        axes.plot(list(ranks), [each.rho for each in ranks.values()], marker=".", color="black")
        style.band(axes, ranks, [(each.low, each.high) for each in ranks.values()], "black")
        axes.set_ylim(-1.05, 1.05)
        axes.set_title("order of the rows against the last one", fontsize=9)
        axes.set_ylabel("Spearman's ρ", fontsize=8)
    shares = {share for _, by_pair in claims_courses for by_share in by_pair.values() for share in by_share}
    for axes in every:
        style.logarithmic(axes, shares)
        axes.set_xlabel("per cent of the steps", fontsize=8)
        axes.grid(alpha=0.3)
    figure.suptitle(f"Differences in {MEASURES[measure]}, pointwise 95 % intervals over pre-trainings; dashed: bound", fontsize=9)
    style.save(figure, path)

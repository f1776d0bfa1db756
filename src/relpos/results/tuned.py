"""Fine-tunings of one network that the user names, from a folder or the hub, as scales.

They have the rows of Tables 3a and 3b of Wennberg & Henter (2021), which differ only in the
fine-tuning. Fine-tunings are repeated there, with seeds in place of those of pre-trainings, and a
finding concerns this one network.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from relpos.config.schema import Change
from relpos.pretrained.files import name_of
from relpos.readers import fitted
from relpos.results.scale import Scale
from relpos.results.values import Value, by, select

ROWS = {"keep": ("absolute", "absolute_tisa"), "remove": ("none", "tisa")}
"""`change.positions` → the row without TISA (S = 0), and with it."""
NAMED_BY_S = {1: "_s1", 3: "_s3", 5: ""}
"""S → the ending of that row's name."""
Start = tuple[str, bool]
"""How TISA starts (`change.start`), and whether one module serves all layers (`change.reused`)."""


def tuned_checkpoints(values: Iterable[Value]) -> list[Scale]:
    """The scales of fine-tunings that started from a network named by the user, if it has position
    embeddings.

    It has position embeddings if a fine-tuning removed them or fitted TISA to them. No run is left
    out, because the records do not show whether today's code would make these runs.
    """
    scales: list[Scale] = []
    tunings = [value for value in values if value.is_tuning and value.scale]
    for checkpoint, runs in by(select(tunings, pretrain_seed=None), "origin").items():
        changes = {key: fitted(json.loads(key), Change) for key in by(runs, "scheme")}
        if not any(
            change.positions == "remove" or (change.tisa and change.start == "regression")
            for change in changes.values()
        ):
            continue
        # A scale for each way of starting TISA; the rows without it belong to all of them.
        starts = [(change.start, change.reused) for change in changes.values() if change.tisa]
        for start in dict.fromkeys(starts):
            scale = _scale(name_of(Path(checkpoint)), *start)
            of_rows: dict[str, list[Value]] = {}
            for value in runs:
                if row := _row_of(changes[value.scheme], start):
                    of_rows.setdefault(row, []).append(value)
            scale.add(of_rows)
            scales.append(scale)
    return scales


def _scale(name: str, way: str, reused: bool) -> Scale:
    """The scale, still without runs, of fine-tunings of one network with one way of starting
    TISA."""
    is_fitted = way == "regression"
    label = f"fine-tuned from {name}, TISA from {'regression' if is_fitted else 'random values'}"
    if reused:
        label += ", one module"
    return Scale(
        {"checkpoint": name, "start": way, "reused": reused},
        label,
        units="fine-tuning seeds",
        # The authors' code of the paper has initial values by regression alone.
        is_of_paper=is_fitted and not reused,
    )


def _row_of(change: Change, start: Start) -> str | None:
    """The row that a change of the network makes, for TISA that starts so; None if no claim is
    about such a row."""
    without, with_tisa = ROWS[change.positions]
    if not change.tisa:
        return without
    is_row = change.tisa in NAMED_BY_S and (change.start, change.reused) == start
    return with_tisa + NAMED_BY_S[change.tisa] if is_row else None

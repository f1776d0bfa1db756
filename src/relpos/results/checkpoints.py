"""Scales of single networks that the user names, from a folder or the hub: of their fine-tunings, and of their weights alone.

Fine-tunings of one network have the rows of Tables 3a and 3b of Wennberg & Henter (2021), which differ only in the fine-tuning. So
fine-tunings are what is repeated: their seeds take the place that seeds of pre-trainings have at other scales, and a finding
concerns this one network.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from relpos.errors import RelposError
from relpos.pretrained.checkpoint import Checkpoint
from relpos.pretrained.files import located, name_of
from relpos.results.scale import Scale
from relpos.results.values import Plain, Value, by
from relpos.train.network import class_of

ROWS = {"keep": ("absolute", "absolute_tisa"), "remove": ("none", "tisa")}
"""`change.positions` → the row without TISA (S = 0), and with it."""
NAMED_BY_S = {1: "_s1", 3: "_s3", 5: ""}
"""S → the ending of that row's name."""
Start = tuple[str, bool]
"""How TISA starts (`change.start`), and whether one module serves all layers (`change.reused`)."""


def tuned_checkpoint(name: str, start: Start) -> Scale:
    """The scale, still without runs, of fine-tunings of one network with one way of starting TISA."""
    way, reused = start
    label = f"fine-tuned from {name}, TISA from {'regression' if way == 'regression' else 'random values'}"
    meaning = {"checkpoint": name, "start": way, "reused": reused}
    # The authors' code had no other initial values than those by regression when the paper was written.
    is_of_paper = way == "regression" and not reused
    return Scale(meaning, "", label + ", one module" * reused, units="fine-tuning seeds", is_of_paper=is_of_paper)


def tuned_checkpoints(values: Iterable[Value]) -> list[Scale]:
    """The scales of fine-tunings that started from a network named by the user, if it has position embeddings.

    It has some if a fine-tuning removed them or fitted TISA to them. Runs of older code are not left out here: their records do not
    show which code made them.
    """
    found: list[Scale] = []
    given = [each for each in values if each.stage == "finetune" and each.pretrain_seed is None and each.scale]
    for checkpoint, runs in by(given, "origin").items():
        changes = {scheme: json.loads(scheme) for scheme in by(runs, "scheme")}
        if not any(change.get("positions") == "remove" or change.get("start") == "regression" for change in changes.values()):
            continue
        # A scale for each way of starting TISA; the rows without it belong to all of them.
        for start in dict.fromkeys((change["start"], change["reused"]) for change in changes.values() if change.get("tisa")):
            rows = {scheme: row_of(change, start) for scheme, change in changes.items()}
            scale = tuned_checkpoint(name_of(Path(checkpoint)), start)
            scale.add({row: [each for each in runs if rows[each.scheme] == row] for row in rows.values() if row})
            found.append(scale)
    return found


def row_of(change: Plain, start: Start) -> str | None:
    """The row that a change makes of the network; None if no claim is about such a row."""
    without, with_tisa = ROWS[change.get("positions", "keep")]
    if not change.get("tisa"):
        return without
    is_row = change["tisa"] in NAMED_BY_S and (change["start"], change["reused"]) == start
    return with_tisa + NAMED_BY_S[change["tisa"]] if is_row else None


def published_checkpoints(checkpoints: Iterable[str]) -> list[Scale]:
    """A scale for each folder or id of the hub, such as `roberta-base (12×768)`, the smallest network first.

    Raises:
        RelposError: one cannot be read, or has no table of position embeddings.
    """
    scales: list[Scale] = []
    for checkpoint in checkpoints:
        folder = located(checkpoint)
        read = Checkpoint(folder)
        if (scheme := class_of(read.settings["position"])) != "absolute":
            raise RelposError(f"network={checkpoint}: it has no table of position embeddings but {scheme}")
        size = read.settings["size"]
        meaning = {"family": read.family.model_type, "size": size}
        label = f"{name_of(folder)} ({size['layers']}×{size['hidden']})"
        # Nothing here knows how it was trained, so that no training can go on.
        scales.append(Scale(meaning, "", label, {"absolute": {0: folder}}, can_go_on=False))
    return sorted(scales, key=lambda scale: scale.magnitude)

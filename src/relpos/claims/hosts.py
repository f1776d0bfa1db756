"""Networks that were given, fine-tuned with other positions: what Tables 3a and 3b of Wennberg & Henter (2021) are about.

The rows differ from the fine-tuning on, so that fine-tunings are what is repeated: their seeds stand where those of pre-trainings
stand at other scales. What is found is said of this one network.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from relpos.claims.scales import Plain, Scale, Scores

ROWS = {"keep": "absolute", "remove": "none"}
"""What becomes of the position embeddings → the row, with S = 0."""
WITH_TISA = {"keep": "absolute_tisa", "remove": "tisa"}
NAMED_BY_S = {1: "_s1", 3: "_s3", 5: ""}
Start = tuple[str, bool]
"""How TISA starts, and whether one module serves all layers."""


@dataclass
class Host(Scale):
    """The fine-tunings of one network, with one way of starting TISA."""

    @property
    def label(self) -> str:
        """`fine-tuned from albert-base-v2, TISA from regression`"""
        start = "regression" if self.meaning["start"] == "regression" else "random values"
        return f"fine-tuned from {self.meaning['host']}, TISA from {start}{', one module' * self.meaning['reused']}"

    @property
    def units(self) -> str:
        return "fine-tuning seeds"


def hosts_of(tunings: Mapping[Path, Plain]) -> list[Scale]:
    """The scales of fine-tunings that started from a network which was given, and which has position embeddings.

    That it has is told by a fine-tuning that took them away, or fitted TISA to them. Whether such runs are of the present code
    cannot be seen in their records.

    Args:
        tunings: folder → record of finished fine-tunings.
    """
    by_host: dict[str, list[tuple[Path, Plain]]] = {}
    for folder, record in tunings.items():
        start = Path(record["inputs"]["start"])
        if start.parent.name not in ("pretrain", "finetune"):
            by_host.setdefault(str(start), []).append((folder, record))
    scales: list[Scale] = []
    for host, runs in by_host.items():
        changes = [record["meaning"].get("change") or {} for _, record in runs]
        if any(change.get("positions") == "remove" or change.get("start") == "regression" for change in changes):
            starts = dict.fromkeys((change["start"], change["reused"]) for change in changes if change.get("tisa"))
            scales += [_scale(host, start, runs) for start in starts]
    return scales


def _scale(host: str, start: Start, runs: Iterable[tuple[Path, Plain]]) -> Scale:
    """One network's rows: those without TISA, and those whose TISA starts so."""
    scale = Host({"host": _name(Path(host)), "start": start[0], "reused": start[1]}, "")
    placed = [(row, folder, record) for folder, record in runs if (row := row_of(record["meaning"].get("change") or {}, start))]
    protocols: dict[str, Counter[str]] = {}
    for _, _, record in placed:
        for column in record["metrics"]["columns"]:
            protocols.setdefault(column, Counter())[_protocol(record)] += 1
    for row, folder, record in placed:
        scale.seconds += record.get("seconds", 0.0)
        for column, value in record["metrics"]["columns"].items():
            if protocols[column].most_common(1)[0][0] != _protocol(record):
                continue
            scores = scale.scores.setdefault(row, {}).setdefault(column, Scores())
            seed = (record["meaning"]["seed"], 0)
            scores.values[seed] = value
            if (path := folder / "dev" / f"{column}.tsv").is_file():
                scores.answers[seed] = path
            scores.metric = record["meaning"]["task"]["metric"]
            scores.majority = record["metrics"].get("majority", {}).get(column)
            scores.examples = record["metrics"].get("examples", {}).get(column)
    return scale


def row_of(change: Plain, start: Start) -> str | None:
    """The row that a change makes of the network; None where no claim is about it."""
    positions = change.get("positions", "keep")
    if not change.get("tisa"):
        return ROWS[positions]
    if change["tisa"] not in NAMED_BY_S or (change["start"], change["reused"]) != start:
        return None
    return WITH_TISA[positions] + NAMED_BY_S[change["tisa"]]


def _protocol(record: Plain) -> str:
    """Everything about a fine-tuning but its seed and the change."""
    return json.dumps({key: value for key, value in record["meaning"].items() if key not in ("seed", "change")}, sort_keys=True)


def _name(host: Path) -> str:
    """Of a checkpoint's folder, of a run's that holds it, or of the hub's repository in whose cache it lies."""
    if host.parent.name == "snapshots":
        return host.parent.parent.name.removeprefix("models--").replace("--", "/")
    return host.parent.name if host.name == "model" else host.name

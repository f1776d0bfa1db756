"""The held-out loss of a table's rows at other lengths than they were trained at; measured once a run and kept in its folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from relpos.files import write_json
from relpos.runs.run import Run
from relpos.tables.plan import PlannedRow

TOKENS = 100_000
"""Held-out text, about."""


def with_lengths(content: list[dict[str, Any]], rows: Iterable[PlannedRow], lengths: list[int]) -> list[dict[str, Any]]:
    """The rows of a table, each with `heldout_by_length`: {"128": mean loss over its finished pre-trainings, …}.

    None where a length is refused by the scheme, and where no pre-training is finished; empty where no lengths are asked for.
    """
    found = []
    for row, planned in zip(content, rows, strict=True):
        measured = [losses(run, lengths) for run in planned.pretrainings if lengths and run.state == "finished"]
        means = {str(length): _mean([one.get(str(length)) for one in measured]) for length in lengths}
        found.append(row | {"heldout_by_length": means})
    return found


def losses(run: Run, lengths: list[int]) -> dict[str, float | None]:
    """Length → held-out loss of a finished pre-training; None where the scheme serves no such length."""
    digest = hashlib.sha256(json.dumps([sorted(lengths), TOKENS]).encode()).hexdigest()[:8]
    path = run.path / f"lengths-{digest}.json"
    if not path.is_file():
        write_json(path, _measure(run, sorted(lengths)))
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _measure(run: Run, lengths: list[int]) -> dict[str, float | None]:
    from relpos.data.heldout_windows import stretches
    from relpos.data.store import Store
    from relpos.train.heldout import loss_by_length
    from relpos.train.weights import load_model

    model: Any = load_model(run.path / "model")
    texts = stretches(Store(run.inputs["store"].path), max(lengths), TOKENS)
    return {str(n): one.get("loss") for n, one in loss_by_length(model, texts, lengths, run.config["precision"]).items()}


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None

"""The held-out loss of a table's rows at lengths other than the trained one; measured once for each run and kept in its folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from relpos.files import write_json
from relpos.runs.run import Run
from relpos.tables.plan import PlannedRow
from relpos.tables.row import Row

if TYPE_CHECKING:
    from relpos.model.heads import MaskedLM

TOKENS = 100_000
"""About how many tokens of held-out text are used."""


def with_heldout_lengths(rows: Sequence[Row], plan: Iterable[PlannedRow], lengths: list[int]) -> list[Row]:
    """The rows, each with the mean loss over its finished pre-trainings at each length.

    The loss is None if the scheme does not serve the length, or if no pre-training is finished.
    """
    if not lengths:
        return list(rows)
    return [replace(row, heldout_by_length=_mean_losses(planned, lengths)) for row, planned in zip(rows, plan, strict=True)]


def _mean_losses(planned: PlannedRow, lengths: list[int]) -> dict[str, float | None]:
    measured = [losses(run, lengths) for run in planned.pretrainings if run.state == "finished"]
    return {str(length): _mean([by_length.get(str(length)) for by_length in measured]) for length in lengths}


def losses(run: Run, lengths: list[int]) -> dict[str, float | None]:
    """Length → held-out loss of a finished pre-training; None if the scheme does not serve the length."""
    digest = hashlib.sha256(json.dumps([sorted(lengths), TOKENS]).encode()).hexdigest()[:8]
    path = run.path / f"lengths-{digest}.json"
    if not path.is_file():
        write_json(path, _measure(run, sorted(lengths)))
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _measure(run: Run, lengths: list[int]) -> dict[str, float | None]:
    from relpos.data.heldout_windows import heldout_texts
    from relpos.data.store import Store
    from relpos.train.heldout import loss_by_length
    from relpos.train.weights import load_model

    texts = heldout_texts(Store(run.inputs["store"].path), max(lengths), TOKENS)
    model = cast("MaskedLM", load_model(run.path / "model"))  # of a pre-training
    measured = loss_by_length(model, texts, lengths, run.config["precision"])
    return {str(length): scores.get("loss") for length, scores in measured.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean; None if a value is missing, or if there are no values."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None

"""The held-out loss of a network by the length of its input, and the losses that are kept in the folders of runs.

A table with `lengths:` keeps them as `lengths-HASH.json` in a pre-training's folder: tokens → loss, None where the position scheme
refuses such inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from relpos.errors import RelposError, say
from relpos.files import digest, read_json, write_json

if TYPE_CHECKING:
    from relpos.data.heldout_windows import MaskedText
    from relpos.model.heads import MaskedLM

TOKENS = 100_000
"""About how many tokens of held-out text a table uses."""
ByLength = dict[int, float | None]


def scores_by_length(
    model: Path, store: Path | str, lengths: Sequence[int], tokens: int, precision: str
) -> dict[int, dict[str, Any]]:
    """Scores of a network on disk, as of `loss_by_length`.

    Args:
        model: the model folder.
        store: the folder of its tokens.
        lengths: of the inputs, in tokens.
        tokens: about how many tokens of held-out text are used; the same ones at all lengths.
        precision: of the pre-training.

    Raises:
        RelposError: no held-out document is as long as the longest input.
    """
    from relpos.data.heldout_windows import heldout_texts
    from relpos.data.objective import masked, next_tokens
    from relpos.data.store import Store
    from relpos.train.weights import load_model

    network = cast("MaskedLM", load_model(model))
    # From documents that fill the longest input, so that all lengths are measured on the same tokens.
    texts = heldout_texts(Store(store), max(lengths), tokens, next_tokens if network.encoder.causal else masked)
    return loss_by_length(network, texts, lengths, precision)


def loss_by_length(model: MaskedLM, texts: list[MaskedText], lengths: Sequence[int], precision: str) -> dict[int, dict[str, Any]]:
    """{length: {loss, perplexity, accuracy, predicted}}, or {length: {refused: why}} where the position scheme cannot serve it."""
    import torch

    with torch.no_grad():
        return {length: _scores(model, texts, length, precision) for length in lengths}


def _scores(model: MaskedLM, texts: list[MaskedText], length: int, precision: str) -> dict[str, Any]:
    from relpos.data.heldout_windows import heldout_windows
    from relpos.model.precision import autocast
    from relpos.train.move import move

    try:
        # A table of positions has no rows for longer inputs, which is a result and no error.
        model.encoder.position.check_length(length)
    except RelposError as error:
        return {"refused": str(error)}
    device = next(model.parameters()).device
    model.eval()
    loss, predicted, correct = 0.0, 0, 0
    # Sums over all tokens, divided once: a mean of batch means would weigh the tokens of short batches more.
    for batch in heldout_windows(texts, length):
        batch = move(batch, device)
        with autocast(precision, device):
            sums = model.loss_sum(batch.input_ids, batch.labels, batch.attention_mask)
        loss, predicted, correct = loss + float(sums[0]), predicted + int(sums[1]), correct + int(sums[2])
    mean = loss / predicted
    return {"loss": mean, "perplexity": math.exp(mean), "accuracy": correct / predicted, "predicted": predicted}


def losses(run: Path, store: Path, lengths: Sequence[int], precision: str) -> ByLength:
    """The losses of a finished pre-training, measured once and kept in its folder; arguments as of `scores_by_length`."""
    # Sorted: tables that ask for the same lengths in another order share the file.
    path = run / f"lengths-{digest([sorted(lengths), TOKENS])}.json"
    with suppress(RelposError):  # a damaged file is measured anew
        return _read(path)
    measured = scores_by_length(run / "model", store, sorted(lengths), TOKENS, precision)
    # A refusal is kept, too, as null: it need not be found out again.
    write_json(path, {str(length): scores.get("loss") for length, scores in measured.items()})
    return _read(path)


def kept_losses(run: Path) -> ByLength:
    """All losses that are kept in a pre-training's folder; a damaged file is named on stderr and left out."""
    known: ByLength = {}
    for path in sorted(run.glob("lengths-*.json")):
        try:
            known |= _read(path)
        except RelposError:
            say(f"relpos: damaged results {path}: delete the file to measure anew")
    return known


def _read(path: Path) -> ByLength:
    losses: ByLength = read_json(path, ByLength)
    return losses

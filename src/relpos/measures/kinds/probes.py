"""How well a token's place can be read from a network's hidden states of shuffled text, layer by layer.

Ridge regression of a token's place from its state, and of the offset between two tokens, at most `REACH` apart, from the states of
both. The texts are windows of one length whose words stand in random order, so that neither the content nor the length says where a
token stands: a network without positions is at chance, R² = 0.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from relpos.analysis.likelihood import exact
from relpos.data.shuffle import shuffled, with_edges
from relpos.measures.measure import Floats, Measure, NothingToMeasure, Results
from relpos.measures.sample import Sample
from relpos.ranges import Count

FEWEST = 6
"""Texts, which the probes divide into three parts: to fit, to choose the penalty and to be judged by."""
REACH = 8
PENALTIES = tuple(10.0**power for power in range(-2, 5))
"""Penalties of the ridge that are tried, in units of the mean variance of a feature; chosen on a third of the training texts."""
_TRAIN, _TUNE = 0.5, 1 / 3
_AT_ONCE = 64


@dataclass(frozen=True)
class Probes(Measure):
    """R² of linear probes by layer.

    Args:
        texts: held-out texts at most, of `length` tokens each.
    """

    texts: Count = 256
    length: Count = 32

    place = 4

    def measure(self, sample: Sample) -> Results:
        """`probes`, see `order_probes`."""
        texts = sample.texts(self.texts, self.length)
        if len(texts) < FEWEST:
            raise NothingToMeasure(f"{sample.network.name}: {len(texts)} held-out windows of text are too few for probes")
        # Of shuffled text: in ordinary text a word's place can be guessed from the word.
        return {"probes": order_probes(sample.model, with_edges(shuffled(texts, sample.words), sample.tokenizer.marks))}

    def said(self, results: Results) -> list[str]:
        # The best layer: order may be used up, and no longer be kept, towards the last.
        return [f"place R² {max(results['probes']['place']):.2f}"] if "probes" in results else []


def order_probes(model: Any, ids: Tensor) -> dict[str, list[float]]:
    """{"place": R², "offset": R²} on held-out texts, each a list: the embedding's output first, then every layer's.

    Args:
        model: a network with an `encoder`.
        ids: (texts, n + 2), words in random order between [CLS] and [SEP]; at least six texts.
    """
    texts, n = len(ids), ids.shape[1] - 2
    place = np.broadcast_to(np.arange(n, dtype=np.float64), (texts, n))
    first, second = _token_pairs(texts, n)
    offset = (second - first).astype(np.float64)
    r2: dict[str, list[float]] = {"place": [], "offset": []}
    for states in _hidden_states(model, ids):
        r2["place"].append(held_out_r2(states, place))
        rows = np.arange(len(states))[:, None]
        r2["offset"].append(held_out_r2(np.concatenate((states[rows, first], states[rows, second]), -1), offset))
    return r2


def _hidden_states(model: Any, ids: Tensor) -> list[npt.NDArray[np.float32]]:
    """(texts, n, hidden) of the embedding and of every pass through a layer, [CLS] and [SEP] left out."""
    device, batches = next(model.parameters()).device, []
    outputs: list[Tensor] = []
    with exact(model), ExitStack() as hooks:
        hooks.enter_context(model.encoder.embedding.register_forward_hook(lambda _module, _inputs, output: outputs.append(output)))
        for layer in model.encoder.layers:  # of which each gives its output twice
            hooks.enter_context(layer.register_forward_hook(lambda _module, _inputs, output: outputs.append(output[0])))
        for texts in ids.split(_AT_ONCE):
            outputs.clear()
            model.encoder(texts.to(device))
            batches.append([states[:, 1:-1].float().cpu().numpy() for states in outputs])
    return [np.concatenate(layer) for layer in zip(*batches, strict=True)]


def held_out_r2(features: npt.NDArray[np.floating[Any]], target: Floats) -> float:
    """features (texts, tokens, d), target (texts, tokens) → R² of a ridge regression on the texts that it was not fitted to.

    The penalty is the best of `PENALTIES` on a part of the training texts.
    """
    texts = len(features)
    train = max(2, round(_TRAIN * texts))
    tune = max(1, round(_TUNE * train))
    # By texts and not by tokens: tokens of one text are not independent of each other.
    parts = [slice(0, train - tune), slice(train - tune, train), slice(train, texts), slice(0, train)]
    fitted, tuned, held, known = (
        (features[part].reshape(-1, features.shape[-1]).astype(np.float64), target[part].reshape(-1)) for part in parts
    )
    weights = {penalty: _ridge(*fitted, penalty) for penalty in PENALTIES}
    # Chosen on texts that neither the weights nor the verdict are from.
    best = max(PENALTIES, key=lambda penalty: _r2(*tuned, weights[penalty]))
    return _r2(*held, _ridge(*known, best))


def _ridge(x: Floats, y: Floats, penalty: float) -> tuple[Floats, float]:
    """Weights and intercept of the ridge regression of y (N,) on x (N, d); the intercept is not shrunk."""
    mean, level = x.mean(0), float(y.mean())
    centred = x - mean
    gram = centred.T @ centred
    # In units of the mean variance, so that one list of penalties suits layers of any scale.
    shrunk = gram + penalty * max(float(np.trace(gram)) / len(gram), 1e-30) * np.eye(len(gram))
    slope: Floats = np.linalg.solve(shrunk, centred.T @ (y - level))
    return slope, level - float(mean @ slope)


def _r2(x: Floats, y: Floats, fit: tuple[Floats, float]) -> float:
    return 1 - float(((y - x @ fit[0] - fit[1]) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def _token_pairs(texts: int, n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(texts, 2n) each: places of two tokens, different and at most `REACH` apart; always the same."""
    chance = np.random.default_rng(0)
    reach = min(REACH, n - 1)
    first = chance.integers(n, size=(texts, 2 * n))
    offsets = [offset for offset in range(-reach, reach + 1) if offset]
    second = first + chance.choice(offsets, size=first.shape)
    second = np.where((second < 0) | (second >= n), 2 * first - second, second)  # mirrored where it lies outside the text
    # In a text shorter than 2 · REACH the mirrored place may lie outside, too.
    return first, np.clip(second, 0, n - 1)

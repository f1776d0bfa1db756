"""What a trained network loses without its position embeddings, and how much of that other networks regain (Wennberg & Henter 2021,
App. C): those without them, with TISA or with the embeddings' own effect on the scores in their place.

Three things are measured: the loss at masked tokens of texts of one length; the order gap, by how much that loss rises when the
words of each text are put into random order, which is zero for a network without positions; and the distance of the encoder's
outputs from the intact network's, E‖h′ − h‖² / E‖h − E h‖², which needs no head: over all tokens, and of [CLS] alone, which a
classifier reads and no masked token's loss.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.analysis.likelihood import exact, log_probabilities
from relpos.analysis.profiles import fit_profiles
from relpos.analysis.resampling import bootstrapped
from relpos.analysis.texts import Texts
from relpos.analysis.toeplitz import diagonal_means
from relpos.errors import RelposError
from relpos.model.encoder import Encoder
from relpos.model.heads import IGNORED, MaskedLM
from relpos.model.position import Merge, Scheme, Terms
from relpos.model.surgery import add_tisa, average_positions, fold_positions, set_tisa

Floats = npt.NDArray[np.float64]
HELDOUT_SEED = 2
"""Seed of the masks under which every network is measured."""
Matrices = Sequence[Float[Tensor, "heads n n"]]
"""F̂_P of every layer."""


@dataclass(frozen=True)
class Variant:
    """One network and what it costs.

    Args:
        network: its name.
        loss: nats per masked token.
        order_gap: how much larger the loss is with the words in random order.
        output_distance: of the outputs from the intact network's.
        cls_distance: the same with the mean of ‖h′ − h‖² over the [CLS] alone; the denominator is over all tokens.
        loss_recovered: of the loss that removing the positions adds, the share that this network regains; None where nothing was
            lost.
        loss_recovered_low, loss_recovered_high: its interval over texts (`share_interval`).
        gap_recovered: the same share of the gap.
        output_recovered: the same share of the distance.
    """

    network: str
    loss: float
    order_gap: float
    output_distance: float
    cls_distance: float
    loss_recovered: float | None = None
    loss_recovered_low: float | None = None
    loss_recovered_high: float | None = None
    gap_recovered: float | None = None
    output_recovered: float | None = None


class Recovery:
    """Measures variants of one network on the same texts under the same masks. The first two `variants` are the network itself and
    the network without positions.

    Args:
        model: with position embeddings and a masked-language-modelling head.
        texts: held-out ones.
        advance: called with each variant once it is measured.

    Raises:
        RelposError: the texts are so few and short that no token is masked.
    """

    def __init__(self, model: MaskedLM, texts: Texts, advance: Callable[[Variant], object] = lambda _: None) -> None:
        self.texts, self.advance = texts, advance
        self.variants: list[Variant] = []
        self._tokens = int(texts.predicted(HELDOUT_SEED).sum())
        if not self._tokens:
            raise RelposError("no token of the held-out texts is masked: more texts, or longer ones, are needed")
        self._outputs: list[Tensor] = []  # of the intact network, which is measured first
        self._losses: list[Floats] = []  # of each variant, by text
        self.measure("intact", model)
        # Averaged rather than zero: the mean of the rows is part of what the layers expect.
        removed = copy.deepcopy(model)
        average_positions(removed.encoder)
        self.measure("removed", removed)

    def measure(self, name: str, model: MaskedLM) -> Variant:
        """Adds a variant."""
        losses, distance, cls_distance = self._passed(model)
        loss = float(losses.sum()) / self._tokens
        gap = float(text_losses(model, self.texts, shuffled=True).sum()) / self._tokens - loss
        found = Variant(name, loss, gap, distance, cls_distance)
        if len(self.variants) > 1:
            (intact, removed), (of_intact, of_removed) = self.variants[:2], self._losses[:2]
            low, high = share_interval(of_removed - losses, of_removed - of_intact) or (None, None)
            found = replace(
                found,
                loss_recovered=_share(removed.loss - loss, removed.loss - intact.loss),
                loss_recovered_low=low,
                loss_recovered_high=high,
                gap_recovered=_share(gap - removed.order_gap, intact.order_gap - removed.order_gap),
                output_recovered=_share(removed.output_distance - distance, removed.output_distance),
            )
        self._losses.append(losses)
        self.variants.append(found)
        self.advance(found)
        return found

    def _passed(self, model: MaskedLM) -> tuple[Floats, float, float]:
        """(texts,) the loss of each text, and the distances of the outputs, over all tokens and at [CLS]."""
        apart = at_cls = total = 0.0
        length = self.texts.ids.shape[1] + 2

        def compare(number: int, outputs: Tensor) -> None:
            nonlocal apart, at_cls, total
            # The first pass is that of the intact network: its outputs are kept for the others.
            if number == len(self._outputs):
                self._outputs.append(outputs)
            intact = self._outputs[number]
            squares = (outputs - intact).double().square()
            apart += float(squares.sum())
            at_cls += float(squares[:, 0].sum())
            # About the mean: a part that all outputs share would make any distance look small.
            total += float((intact - intact.mean((0, 1))).double().square().sum())

        losses = text_losses(model, self.texts, advance=compare)
        return losses, apart / total, length * at_cls / total


def text_losses(
    model: MaskedLM, texts: Texts, shuffled: bool = False, advance: Callable[[int, Tensor], object] = lambda *_: None
) -> Floats:
    """(texts,) the summed loss of each text's masked tokens, in nats; `advance` is called with the number of each batch and the
    encoder's outputs (b, n + 2, hidden).
    """
    losses = []
    with exact(model):
        for number, (ids, labels) in enumerate(texts.batches(HELDOUT_SEED, shuffled)):
            outputs = model.encoder(ids)
            # Logits are needed at these tokens alone: those of all tokens would be as many vocabularies.
            row, place = (labels != IGNORED).nonzero(as_tuple=True)
            each = -log_probabilities(model, outputs[row, place], labels[row, place])
            losses.append(torch.zeros(len(ids), dtype=torch.float64).index_add_(0, row, each).numpy())
            advance(number, outputs)
    return np.concatenate(losses)


def share_interval(regained: Floats, lost: Floats) -> tuple[float, float] | None:
    """95 % bootstrap interval (bias-corrected and accelerated) of Σ regained / Σ lost, both (texts,): texts are drawn.

    It is for other texts, not for another network or head. None where nothing is lost in some of the draws, because
    the share then has no bounds, and where all texts have the same share.

    >>> low, high = share_interval(np.array([1.0, 3.0, 2.0, 2.0]), np.array([4.0, 4.0, 5.0, 3.0]))
    >>> 0.25 <= low < 0.5 < high <= 0.75
    True
    """

    def share(regained: Floats, lost: Floats, axis: int) -> Floats:
        total = lost.sum(axis)
        return np.divide(regained.sum(axis), total, out=np.full_like(total, np.nan), where=total > 0)

    return bootstrapped((regained, lost), share, paired=True, vectorized=True, batch=1_000)


def _share(regained: float, lost: float) -> float | None:
    return regained / lost if lost > 0 else None


def with_fitted_tisa(model: MaskedLM, matrices: Matrices, functions: int) -> MaskedLM:
    """A copy with TISA of S functions for each head, fitted to F̂_P of each layer, in place of the position embeddings."""
    bare = _without_positions(model)
    fits = [fit_profiles(heads, functions) for heads in matrices]
    set_tisa(add_tisa(bare.encoder, functions), [[(fit.amplitude, fit.sharpness, fit.centre) for fit in heads] for heads in fits])
    return bare


def with_random_tisa(model: MaskedLM, functions: int, seed: int) -> MaskedLM:
    """A copy with TISA of S functions for each head, as its authors initialise it, in place of the position embeddings."""
    bare = _without_positions(model)
    # The caller's random numbers go on as if nothing had been drawn.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        add_tisa(bare.encoder, functions)
    return bare


def with_matrices(model: MaskedLM, matrices: Matrices) -> MaskedLM:
    """A copy with a matrix for each layer and head, such as F̂_P itself, added to the scores in place of the position embeddings."""
    bare = _without_positions(model)
    scheme = bare.encoder.position
    given = _Matrices(scheme.shape)
    given.matrices = [heads.float() for heads in matrices]
    # A merge asks functions of the shape for its parts.
    bare.encoder.position = Merge(scheme.shape, [lambda _: scheme, lambda _: given])
    return bare


def toeplitz_parts(matrices: Matrices) -> list[Float[Tensor, "heads n n"]]:
    """The nearest Toeplitz matrix to each: no choice of TISA's parameters is nearer."""
    token = torch.arange(matrices[0].shape[-1])
    offset = token[None] - token[:, None] + len(token) - 1
    return [torch.stack([torch.from_numpy(diagonal_means(head))[offset] for head in heads]) for heads in matrices]


def _without_positions(model: MaskedLM) -> MaskedLM:
    bare = copy.deepcopy(model)
    fold_positions(bare.encoder)
    return bare


class _Matrices(Scheme):
    """Adds a given matrix to the scores of each layer and head."""

    matrices: list[Tensor]

    def terms(self, layer: int, q: Tensor, k: Tensor, state: None) -> Terms:
        n = q.shape[2]
        return Terms(dense=self.matrices[layer][None, :, :n, :n].to(q.dtype))


def train_head(encoder: Encoder, texts: Texts, epochs: int = 4, rows: int = 128, lr: float = 2e-3) -> MaskedLM:
    """The encoder with a new head that is trained to predict the masked words from its outputs; the encoder is not trained.

    The outputs are computed once. The head is BERT's, tied to the word table; its bias begins as the logarithm of the words'
    frequencies (plus 0.1, so that words that are not in the texts have one), its linear map as the identity where the widths are
    equal. Words that are never to be predicted are left out of the softmax while the head is trained.
    """
    model = MaskedLM(encoder).requires_grad_(False)
    # Once: the encoder does not change while its head is trained.
    features, targets = [], []
    encoder.eval()
    with torch.no_grad():
        for ids, labels in texts.batches(seed=1):
            chosen = (labels != IGNORED).flatten().nonzero().squeeze(1)
            features.append(encoder(ids, at=chosen))
            targets.append(labels.flatten()[chosen])
    x, y = torch.cat(features), torch.cat(targets)
    with torch.no_grad():
        words = model.table
        counts = torch.bincount(texts.ids.flatten(), minlength=len(words)).float() + 0.1
        model.head.bias.copy_((counts / counts.sum()).log())
        if model.head.narrow.in_features == model.head.narrow.out_features:
            # Training then begins at the outputs themselves, not at random mixtures of them.
            nn.init.eye_(model.head.narrow.weight)
            if model.head.narrow.bias is not None:
                nn.init.zeros_(model.head.narrow.bias)
    model.head.requires_grad_(True)
    if model.head.table is not None:
        model.head.table.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=lr)
    steps = epochs * -(-len(x) // rows)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    generator = torch.Generator().manual_seed(0)
    # A softmax over the words to be predicted is many times smaller, and the others would only be pushed down.
    seen, y = torch.unique(y, return_inverse=True)
    table = model.table[seen].detach()
    for _ in range(epochs):
        for part in torch.randperm(len(x), generator=generator).split(rows):
            logits = nn.functional.linear(model.head.transform(x[part]), table, model.head.bias[seen])
            loss = nn.functional.cross_entropy(logits, y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.requires_grad_(False).eval()

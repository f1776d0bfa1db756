"""What a trained network loses with its position embeddings, and how much of it TISA gives back (Wennberg & Henter 2021, App. C).

Measured are the loss at masked tokens of texts of one length; the order gap, how much that loss rises when the words of each text
stand in random order, which is zero for a network without positions; and the distance of the encoder's outputs from the intact
network's, E‖h′ − h‖² / E‖h − E h‖², which needs no head.

A published encoder often comes without its masked-language-modelling head. `train_head` makes one: it learns to read the words off
the intact encoder's outputs, which stay as they are, and then serves every variant unchanged.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.analysis.fit import Fit, fit_heads
from relpos.analysis.profiles import Choices, profiles
from relpos.analysis.toeplitz import diagonal_means
from relpos.counter import counter_hash, uniform
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError
from relpos.model.encoder import Encoder
from relpos.model.heads import IGNORED, MaskedLM
from relpos.model.position import Merge, Scheme, Terms, Tisa
from relpos.model.shape import Ids, Shape
from relpos.model.surgery import add_tisa, average_positions, fold_positions, set_tisa

RATE = 0.15
BATCH = 16  # texts in a forward pass
_SHUFFLE = 0x6F72646572


@dataclass(frozen=True)
class Texts:
    """Texts of one length for masked-language modelling.

    Args:
        ids: (texts, n), special tokens left out.
        tokenizer: that made them.
    """

    ids: Ids
    tokenizer: Tokenizer

    @cached_property
    def words(self) -> Words:
        """The word boundaries."""
        return Words(self.tokenizer)

    @property
    def with_edges(self) -> Tensor:
        """(texts, n + 2), with [CLS] and [SEP]."""
        return self._edged(self.ids)

    def batches(self, seed: int, shuffled: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
        """(input ids, labels), both (b, n + 2): 15 % of the tokens are predicted; [MASK], a random word or they themselves stand
        there, as in BERT. `shuffled` puts the words of each text into random order; the same tokens are predicted."""
        for start in range(0, len(self.ids), BATCH):
            ids = self.ids[start : start + BATCH]
            row = torch.arange(start, start + len(ids))[:, None]
            place = torch.arange(ids.shape[1])[None]
            chosen, how = uniform(seed, row, place, 0) < RATE, uniform(seed, row, place, 1)
            drawn = (counter_hash(seed, row, place, 2) >> 1 & (1 << 62) - 1) % self.tokenizer.size
            shown = torch.where(how < 0.8, torch.full_like(ids, self.tokenizer.mask), torch.where(how < 0.9, drawn, ids))
            shown = torch.where(chosen, shown, ids)
            labels = torch.where(chosen, ids, torch.full_like(ids, IGNORED))
            if shuffled:
                order = self._order(ids, row)
                shown, labels = shown.gather(1, order), labels.gather(1, order)
            yield self._edged(shown), nn.functional.pad(labels, (1, 1), value=IGNORED)

    def _order(self, ids: Tensor, row: Tensor) -> Tensor:
        """(b, n): where each token comes from; the pieces of a word stay together."""
        word = torch.from_numpy(self.words.numbers(ids.numpy()))
        draw = (counter_hash(_SHUFFLE, row, word) >> 11).numpy()
        place = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        return torch.from_numpy(np.lexsort((place, word.numpy(), draw), axis=1))

    def _edged(self, ids: Ids) -> Tensor:
        edged = nn.functional.pad(ids, (1, 1))
        edged[:, 0], edged[:, -1] = self.tokenizer.cls, self.tokenizer.sep
        return edged


def first_layers(encoder: Encoder, layers: int) -> Encoder:
    """A copy that ends after so many passes.

    Raises:
        RelposError: there are fewer.
    """
    if not 1 <= layers <= encoder.shape.layers:
        raise RelposError(f"layers={layers}: there are {encoder.shape.layers}")
    cut = copy.deepcopy(encoder)
    cut.layers = cut.layers[:layers]
    cut.shape = replace(cut.shape, layers=layers)
    return cut


def train_head(encoder: Encoder, texts: Texts, epochs: int = 4, rows: int = 128, lr: float = 2e-3) -> MaskedLM:
    """The encoder with a new head that reads the masked words off its outputs; the encoder is not trained.

    The outputs are computed once. The head is BERT's, tied to the word table; its bias begins as the logarithm of the words'
    frequencies, its linear map as the identity where the widths allow. Words that are not in the texts keep the bias of a word seen
    a tenth of a time, and are left out of the softmax while the head is trained.
    """
    model = MaskedLM(encoder).requires_grad_(False)
    features, targets = [], []
    encoder.eval()
    with torch.no_grad():
        for ids, labels in texts.batches(seed=1):
            chosen = labels != IGNORED
            features.append(encoder(ids)[chosen])
            targets.append(labels[chosen])
    x, y = torch.cat(features), torch.cat(targets)
    with torch.no_grad():
        words = model.table
        counts = torch.bincount(texts.ids.flatten(), minlength=len(words)).float() + 0.1
        model.head.bias.copy_((counts / counts.sum()).log())
        if model.head.narrow.in_features == model.head.narrow.out_features:
            nn.init.eye_(model.head.narrow.weight)
            nn.init.zeros_(model.head.narrow.bias)
    model.head.requires_grad_(True)
    if model.head.table is not None:
        model.head.table.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=lr)
    steps = epochs * -(-len(x) // rows)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    generator = torch.Generator().manual_seed(0)
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


@torch.no_grad()
def loss(model: MaskedLM, texts: Texts, shuffled: bool = False) -> float:
    """Nats a masked token."""
    model.eval()
    total, number = 0.0, 0
    for ids, labels in texts.batches(seed=2, shuffled=shuffled):
        part, chosen, _ = model.loss_sum(ids, labels)
        total, number = total + float(part), number + int(chosen)
    return total / number


@dataclass(frozen=True)
class Variant:
    """One network and what it costs.

    Args:
        loss: nats a masked token; `gap`: how much more with the words in random order; `distance`: of the outputs.
        recovered: the share of the loss that removal costs which is regained; `order`: of the gap; `output`: of the distance. None
            where nothing was lost.
    """

    name: str
    loss: float
    gap: float
    distance: float
    recovered: float | None = None
    order: float | None = None
    output: float | None = None


@dataclass
class Recovery:
    """Measures variants of one network.

    Args:
        model: with position embeddings and a masked-language-modelling head.
        texts: held-out ones.
        length: of the profiles to which TISA is fitted; None: that of the texts with [CLS] and [SEP].
        advance: is told of each variant when it is measured.
    """

    model: MaskedLM
    texts: Texts
    length: int | None = None
    advance: Callable[[Variant], object] = lambda _: None
    variants: list[Variant] = field(default_factory=list)
    fits: dict[int, list[list[Fit]]] = field(default_factory=dict)
    outputs: list[Tensor] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.length = self.length or self.texts.ids.shape[1] + 2
        self.removed = copy.deepcopy(self.model)
        average_positions(self.removed.encoder)
        self.measure("intact", self.model)
        self.measure("removed", self.removed)

    def measure(self, name: str, model: MaskedLM) -> Variant:
        """Adds a variant."""
        plain = loss(model, self.texts)
        gap = loss(model, self.texts, shuffled=True) - plain
        distance = self.distance(model)
        variant = Variant(name, plain, gap, distance)
        if len(self.variants) >= 2:
            intact, removed = self.variants[:2]
            cost = removed.loss - intact.loss
            recovered = (removed.loss - plain) / cost if cost > 0 else None
            order = (gap - removed.gap) / (intact.gap - removed.gap) if intact.gap > removed.gap else None
            output = 1 - distance / removed.distance if removed.distance > 0 else None
            variant = Variant(name, plain, gap, distance, recovered, order, output)
        self.variants.append(variant)
        self.advance(variant)
        return variant

    @torch.no_grad()
    def distance(self, model: MaskedLM) -> float:
        """Of the outputs of `model` from those of the intact network, over their variance."""
        apart = total = 0.0
        for number, (ids, _) in enumerate(self.texts.batches(seed=2)):
            if number == len(self.outputs):
                self.outputs.append(self.model.encoder(ids))
            intact = self.outputs[number]
            apart += float((model.encoder(ids) - intact).double().square().sum())
            total += float((intact - intact.mean((0, 1))).double().square().sum())
        return apart / total

    def curves(self, choices: Choices) -> list[Float[Tensor, "heads n n"]]:
        """F̂_P of every layer of the intact network."""
        assert self.length is not None
        return [
            profiles(self.model.encoder, layer, self.length, choices, self.texts.with_edges[:64])
            for layer in range(self.model.encoder.shape.layers)
        ]

    def regression(self, functions: int, choices: Choices) -> MaskedLM:
        """Positions removed, TISA fitted to F̂_P of each layer instead."""
        fits = [fitted(matrices, functions) for matrices in self.curves(choices)]
        self.fits[functions] = fits
        model = self._bare()
        set_tisa(
            add_tisa(model.encoder, functions), [[(fit.amplitude, fit.sharpness, fit.centre) for fit in heads] for heads in fits]
        )
        return model

    def random(self, functions: int, seed: int) -> MaskedLM:
        """Positions removed, TISA as its authors initialise it."""
        model = self._bare()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            add_tisa(model.encoder, functions)
        return model

    def unfitted(self, choices: Choices, toeplitz: bool) -> MaskedLM:
        """Positions removed, F̂_P itself added to the scores, or the Toeplitz matrix nearest to it, which no S can fit better."""
        model = self._bare()
        matrices = self.curves(choices)
        if toeplitz:
            matrices = [torch.stack([_toeplitz(head) for head in heads]) for heads in matrices]
        model.encoder.position = Merge(model.encoder.position.shape, [_kept(model.encoder.position), _Added.of(matrices)])
        return model

    def _bare(self) -> MaskedLM:
        model = copy.deepcopy(self.model)
        fold_positions(model.encoder)
        return model


def fitted(matrices: Float[Tensor, "heads n n"], functions: int) -> list[Fit]:
    """TISA's functions of one layer by least squares to F̂_P (the whole matrices: an offset counts as often as it occurs)."""
    n = matrices.shape[-1]
    weights = n - np.abs(np.arange(1 - n, n))
    return fit_heads(np.stack([diagonal_means(head) for head in matrices]), functions, weights)


def train_tisa(model: MaskedLM, texts: Texts, steps: int, lr: float = 0.02) -> None:
    """Trains TISA's parameters alone, `BATCH` texts a step, with a linear decay of the learning rate."""
    parts = [part for part in model.encoder.position.modules() if isinstance(part, Tisa)]
    parameters = [parameter for part in parts for parameter in part.parameters()]
    model.requires_grad_(False)
    for parameter in parameters:
        parameter.requires_grad_(True)
    optimizer = torch.optim.Adam(parameters, lr=lr)
    done, epoch = 0, 0
    model.eval()
    while done < steps:
        for ids, labels in texts.batches(seed=3 + epoch):
            for group in optimizer.param_groups:
                group["lr"] = lr * (1 - done / steps)
            optimizer.zero_grad()
            model.loss(ids, labels).backward()
            optimizer.step()
            done += 1
            if done == steps:
                break
        epoch += 1
    model.requires_grad_(False)


class _Added(Scheme):
    """A matrix a layer and head, added to the scores."""

    @classmethod
    def of(cls, matrices: list[Float[Tensor, "heads n n"]]) -> Callable[[Shape], Scheme]:
        def made(shape: Shape) -> Scheme:
            scheme = cls(shape)
            scheme.matrices = [heads.float() for heads in matrices]
            return scheme

        return made

    matrices: list[Tensor]

    def terms(self, layer: int, q: Tensor, k: Tensor, state: None) -> Terms:
        n = q.shape[2]
        return Terms(dense=self.matrices[layer][None, :, :n, :n].to(q.dtype))


def _kept(scheme: Scheme) -> Callable[[Shape], Scheme]:
    return lambda _: scheme


def _toeplitz(matrix: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    n = len(matrix)
    token = torch.arange(n)
    return torch.from_numpy(diagonal_means(matrix))[token[None] - token[:, None] + n - 1]

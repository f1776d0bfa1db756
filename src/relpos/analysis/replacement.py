"""Networks without their position embeddings, with TISA or with the embeddings' own effect on the scores in their place
(Wennberg & Henter 2021, Appendix C); and a head that predicts words, for an encoder that was published without one.

Functions that take a network return a changed copy of it; `train_tisa` alone changes the network itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.analysis.profiles import fit_profiles
from relpos.analysis.texts import Texts
from relpos.analysis.toeplitz import diagonal_means
from relpos.model.encoder import Encoder
from relpos.model.heads import IGNORED, MaskedLM
from relpos.model.position import Merge, Scheme, Terms, Tisa
from relpos.model.shape import Shape
from relpos.model.surgery import add_tisa, average_positions, fold_positions, set_tisa

Matrices = Sequence[Float[Tensor, "heads n n"]]
"""F̂_P of every layer."""


def averaged(model: MaskedLM) -> MaskedLM:
    """A copy in which every position has the mean row, so that it does not know the order of the tokens."""
    removed = copy.deepcopy(model)
    average_positions(removed.encoder)
    return removed


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
    # A merge builds its parts from the shape alone: hence a function that knows the matrices.
    bare.encoder.position = Merge(scheme.shape, [lambda _: scheme, _Matrices.of(matrices)])
    return bare


def toeplitz_parts(matrices: Matrices) -> list[Float[Tensor, "heads n n"]]:
    """The nearest Toeplitz matrix to each: no choice of TISA's parameters is nearer."""
    return [torch.stack([_toeplitz_part(head) for head in heads]) for heads in matrices]


def train_tisa(model: MaskedLM, texts: Texts, steps: int, lr: float = 0.02) -> None:
    """Trains TISA's parameters alone, in place: one batch of texts in each step, with a linear decay of the learning rate."""
    modules = [module for module in model.encoder.position.modules() if isinstance(module, Tisa)]
    parameters = [parameter for module in modules for parameter in module.parameters()]
    model.requires_grad_(False)
    for parameter in parameters:
        parameter.requires_grad_(True)
    optimizer = torch.optim.Adam(parameters, lr=lr)
    done, epoch = 0, 0
    model.eval()
    while done < steps:
        # Seeds 1 and 2 are the masks of the head's training and of the measurement.
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


def _without_positions(model: MaskedLM) -> MaskedLM:
    bare = copy.deepcopy(model)
    fold_positions(bare.encoder)
    return bare


class _Matrices(Scheme):
    """Adds a given matrix to the scores of each layer and head."""

    @classmethod
    def of(cls, matrices: Matrices) -> Callable[[Shape], Scheme]:
        def made(shape: Shape) -> Scheme:
            scheme = cls(shape)
            scheme.matrices = [heads.float() for heads in matrices]
            return scheme

        return made

    matrices: list[Tensor]

    def terms(self, layer: int, q: Tensor, k: Tensor, state: None) -> Terms:
        n = q.shape[2]
        return Terms(dense=self.matrices[layer][None, :, :n, :n].to(q.dtype))


def _toeplitz_part(matrix: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    n = len(matrix)
    token = torch.arange(n)
    return torch.from_numpy(diagonal_means(matrix))[token[None] - token[:, None] + n - 1]

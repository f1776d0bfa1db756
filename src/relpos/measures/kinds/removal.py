"""How much a trained network loses without its position embeddings, and how much of that is
regained with TISA, or with the embeddings' own effect on the scores, in their place (Wennberg &
Henter 2021, App. C).

Three things are measured: the loss at masked tokens of texts of one length; the order gap, by how
much that loss rises when the words of each text are put into random order, which is zero for a
network without positions; and the distance of the encoder's outputs from the intact network's, E‖h′
− h‖² / E‖h − E h‖², which needs no head: over all tokens, and of [CLS] alone, which a classifier
reads and no masked token's loss.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from relpos import style
from relpos.analysis.likelihood import Floats, exact, log_probabilities
from relpos.analysis.profiles import profiles
from relpos.analysis.resampling import bootstrapped
from relpos.analysis.toeplitz import diagonal_means
from relpos.config.schema import Change
from relpos.counter import counter_hash
from relpos.data.objective import masked
from relpos.data.shuffle import with_edges
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError, say
from relpos.measures.measure import Drawing, Measure
from relpos.measures.sample import Sample
from relpos.model.heads import IGNORED, MaskedLM
from relpos.model.position import Scheme, Terms
from relpos.model.position.merge import Merge
from relpos.model.shape import Ids
from relpos.model.surgery import add_tisa, average_positions, fold_positions
from relpos.ranges import Count
from relpos.readers import Plain
from relpos.stages.change import change_positions

HELDOUT_SEED = 2
"""Seed of the masks under which every network is measured."""
Matrices = Sequence[Float[Tensor, "heads n n"]]
"""F̂_P of every layer."""
Batches = Sequence[tuple[Tensor, Tensor]]
"""Input ids and labels (b, n + 2) of masked texts."""
SHARES = ("loss_recovered", "loss_recovered_low", "loss_recovered_high")
"""Columns: the regained share of the loss, and the ends of its interval."""
BATCH = 16  # texts in a forward pass
_SHUFFLE = 0x6F72646572
PANELS = {
    "loss": "loss, nats per masked token",
    "order_gap": "order gap, nats",
    "output_distance": "distance of outputs (ring: at [CLS])",
    "loss_recovered": "fraction of the loss regained",
}


@dataclass(frozen=True)
class Removal(Measure):
    """Loss at masked tokens, order gap and distance of the outputs of several networks: intact,
    without positions, with TISA from regression and from random values, and with F̂_P itself.

    Args:
        functions: values of S.
        seeds: random starts.
        texts: held-out texts, of `length` tokens besides [CLS] and [SEP].
    """

    functions: Sequence[Count] = (1, 3, 5)
    seeds: Count = 3
    texts: Count = 64
    length: Count = 126

    by_name = True

    def measure(self, sample: Sample) -> Plain:
        """`removal`: of each network a row with its loss, order gap and distances, and the share of
        the loss that it regains, see `compared`."""
        if not self.functions:
            raise RelposError("functions=[]: at least one is needed")
        model = sample.model
        if model.encoder.causal:
            raise RelposError(
                f"{sample.network.name}: a causal network has no masked tokens, "
                f"whose loss `removal` measures"
            )
        texts = sample.texts(self.texts, self.length)
        networks = variants(model, texts.shape[1] + 2, self.functions, self.seeds)
        in_order, shuffled = (
            masked_texts(texts, sample.tokenizer, HELDOUT_SEED, words)
            for words in (None, sample.words)
        )
        rows = []
        for row in compared(networks, in_order, shuffled):
            say(f"{sample.network.name}: {row['network']}: loss {row['loss']:.4f}")
            rows.append(row)
        return {"removal": rows}

    def drawn(self, name: str, results: Plain) -> Iterator[Drawing]:
        rows = results["removal"]
        names = [row["network"] for row in rows]
        figure, panels = style.grid(4, 4, 3.0, 0.32 * len(rows))
        columns = {
            key: np.array([row[key] for row in rows], np.float64)
            for key in rows[0].keys() - {"network"}
        }
        for axes, (key, title) in zip(panels, PANELS.items(), strict=True):
            axes.plot(columns[key], names, "o", color=style.COLOURS[0], markersize=4)
            axes.set_title(title, fontsize=8)
            axes.invert_yaxis()
            axes.label_outer()
            axes.grid(axis="y", alpha=0.3)
        *_, outputs, regained = panels
        outputs.plot(columns["cls_distance"], names, "o", color="0.35", fillstyle="none")
        regained.hlines(names, *(columns[end] for end in SHARES[1:]))
        # What each regains; dotted lines mark nothing and all.
        for bound in (0, 1):
            regained.axvline(bound, color="0.4", linestyle=":", linewidth=0.8)
        figure.suptitle(f"{name}: positions removed, TISA instead", fontsize=9)
        yield Drawing(f"removal-{name}", rows, figure)


def masked_texts(
    texts: Ids,
    tokenizer: Tokenizer,
    seed: int,
    words: Words | None = None,
) -> Batches:
    """Texts (texts, n), special tokens left out, under BERT's masks and with [CLS] and [SEP].

    Args:
        words: the word boundaries; the words of each text are then put into random order, and the
            same tokens are predicted. None: the text stays as it is.
    """
    batches = []
    for start in range(0, len(texts), BATCH):
        ids = texts[start : start + BATCH]
        row = torch.arange(start, start + len(ids))
        # Before the words are moved: the same tokens are masked in either order.
        lengths = torch.full_like(row, ids.shape[1])
        size = tokenizer.size
        shown, labels, _ = masked(ids, lengths, row, seed, size, marks=tokenizer.marks)
        if words is not None:
            order = _order(ids, row[:, None], words)
            shown = shown.gather(1, order)
            labels = labels.gather(1, order)
        labels = pad(labels, (1, 1), value=IGNORED)
        batches.append((with_edges(shown, tokenizer.marks), labels))
    return batches


def _order(ids: Ids, row: Tensor, words: Words) -> Tensor:
    """(b, n): where each token comes from; the pieces of a word stay together."""
    word = torch.from_numpy(words.numbers(ids.numpy()))
    draw = (counter_hash(_SHUFFLE, row, word) >> 11).numpy()
    place = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    return torch.from_numpy(np.lexsort((place, word.numpy(), draw), axis=1))


def variants(
    model: MaskedLM,
    length: int,
    functions: Sequence[int],
    seeds: int,
) -> Iterator[tuple[str, MaskedLM]]:
    """The networks that are compared, and their names: the network itself, the one without
    positions, and those with something in the positions' place.

    Args:
        model: with position embeddings and a masked-language-modelling head.
        length: positions of F̂_P.
        functions: values of S.
        seeds: random starts of TISA.
    """
    yield "intact", model
    # Averaged rather than zero: the mean of the rows is part of what the layers expect.
    removed = copy.deepcopy(model)
    average_positions(removed.encoder)
    yield "removed", removed
    # What random parameters can do is asked once, where they have most freedom.
    largest = max(functions)
    for count in functions:
        regressed = copy.deepcopy(model)
        change_positions(regressed.encoder, Change("remove", tisa=count), length, seed=0)
        yield f"TISA from regression, S = {count}", regressed
    for seed in range(seeds):
        yield f"TISA at random, S = {largest}, seed {seed}", with_random_tisa(model, largest, seed)
    layers = range(model.encoder.shape.layers)
    matrices = [profiles(model.encoder, layer, length) for layer in layers]
    yield "Toeplitz part of F_P", _with_matrices(model, [_toeplitz(heads) for heads in matrices])
    yield "F_P", _with_matrices(model, matrices)


def compared(
    networks: Iterable[tuple[str, MaskedLM]],
    texts: Batches,
    shuffled: Batches,
) -> Iterator[Plain]:
    """Of each network its name (`network`), `loss` in nats per masked token and `order_gap`;
    `output_distance` of the outputs from the intact network's, and `cls_distance`: the same with
    the mean of ‖h′ − h‖² over the [CLS] alone, the denominator being over all tokens. And what
    those after the first two regain of the loss that removing the positions adds, None where
    nothing was lost: the fraction `loss_recovered`, with its interval over texts,
    `loss_recovered_low` and `loss_recovered_high`.

    Args:
        networks: the first is the intact one, the second the one without positions.
        texts: held-out ones, masked.
        shuffled: the same with their words in random order.

    Raises:
        RelposError: the texts are so few and short that no token is masked.
    """
    tokens = sum(int((labels != IGNORED).sum()) for _, labels in texts)
    if not tokens:
        raise RelposError(
            "no token of the held-out texts is masked: more texts, or longer ones, are needed"
        )
    losses: list[Floats] = []  # of each network, by text
    intact_outputs: list[Tensor] = []
    for name, model in networks:
        of_texts, outputs = passed(model, texts)
        intact_outputs = intact_outputs or outputs
        loss = float(of_texts.sum()) / tokens
        row: Plain = {
            "network": name,
            "loss": loss,
            "order_gap": float(passed(model, shuffled)[0].sum()) / tokens - loss,
            **_distances(outputs, intact_outputs),
        }
        row |= dict.fromkeys(SHARES)
        losses.append(of_texts)
        if len(losses) > 2:
            regained, lost = losses[1] - of_texts, losses[1] - losses[0]
            if lost.sum() > 0:
                row["loss_recovered"] = float(regained.sum() / lost.sum())
            if ends := share_interval(regained, lost):
                row |= zip(SHARES[1:], ends, strict=True)
        yield row


def _distances(outputs: Sequence[Tensor], intact: Sequence[Tensor]) -> dict[str, float]:
    """The distance of the outputs, over all tokens and at [CLS]."""
    apart = at_cls = total = 0.0
    for changed, before in zip(outputs, intact, strict=True):
        squares = (changed - before).double().square()
        apart += float(squares.sum())
        at_cls += float(squares[:, 0].sum())
        # About the mean: a part that all outputs share would make any distance look small.
        total += float((before - before.mean((0, 1))).double().square().sum())
    tokens = outputs[0].shape[1]
    return {"output_distance": apart / total, "cls_distance": tokens * at_cls / total}


def passed(model: MaskedLM, texts: Batches) -> tuple[Floats, list[Tensor]]:
    """(texts,) the summed loss of each text's masked tokens, in nats; and the outputs (b, n + 2,
    hidden) of each batch."""
    losses: list[Floats] = []
    outputs: list[Tensor] = []
    with exact(model):
        for ids, labels in texts:
            outputs.append(model.encoder(ids))
            # Logits are needed at these tokens alone: those of all tokens would be as many
            # vocabularies.
            row, place = (labels != IGNORED).nonzero(as_tuple=True)
            by_token = -log_probabilities(model, outputs[-1][row, place], labels[row, place])
            by_text = torch.zeros(len(ids), dtype=torch.float64).index_add_(0, row, by_token)
            losses.append(by_text.numpy())
    return np.concatenate(losses), outputs


def share_interval(regained: Floats, lost: Floats) -> tuple[float, float] | None:
    """95 % bootstrap interval (bias-corrected and accelerated) of Σ regained / Σ lost, both
    (texts,): texts are drawn.

    It is for other texts, not for another network or head. None where nothing is lost in some of
    the draws, because the share then has no bounds, and where all texts have the same share.

    >>> low, high = share_interval(np.array([1.0, 3.0, 2.0, 2.0]), np.array([4.0, 4.0, 5.0, 3.0]))
    >>> 0.25 <= low < 0.5 < high <= 0.75
    True
    """

    def share(regained: Floats, lost: Floats, axis: int) -> Floats:
        total = lost.sum(axis)
        return regained.sum(axis) / np.where(total > 0, total, np.nan)

    return bootstrapped((regained, lost), share, paired=True, vectorized=True, batch=1_000)


def with_random_tisa(model: MaskedLM, functions: int, seed: int) -> MaskedLM:
    """A copy with TISA of S functions for each head, as its authors initialise it, in place of the
    position embeddings."""
    bare = _without_positions(model)
    # The caller's random numbers go on as if nothing had been drawn.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        add_tisa(bare.encoder, functions)
    return bare


def _with_matrices(model: MaskedLM, matrices: Matrices) -> MaskedLM:
    """A copy with a matrix for each layer and head, such as F̂_P itself, added to the scores in
    place of the position embeddings."""
    bare = _without_positions(model)
    scheme = bare.encoder.position
    fixed = _Matrices(scheme.shape)
    fixed.matrices = [heads.float() for heads in matrices]
    # A merge makes its parts by functions of the shape.
    bare.encoder.position = Merge(scheme.shape, [lambda _: scheme, lambda _: fixed])
    return bare


def _toeplitz(heads: Float[Tensor, "heads n n"]) -> Float[Tensor, "heads n n"]:
    """The nearest Toeplitz matrix to each: no choice of TISA's parameters is nearer."""
    token = torch.arange(heads.shape[-1])
    offset = token - token[:, None] + len(token) - 1
    return torch.stack([torch.from_numpy(diagonal_means(head))[offset] for head in heads])


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

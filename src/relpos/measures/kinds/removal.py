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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos import style
from relpos.analysis.likelihood import exact, log_probabilities
from relpos.analysis.profiles import profiles
from relpos.analysis.resampling import Ends, Floats, bootstrapped
from relpos.analysis.toeplitz import diagonal_means
from relpos.config.schema import Change
from relpos.counter import counter_hash
from relpos.data.objective import Unmasked, masked
from relpos.data.shuffle import with_edges
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError, say
from relpos.measures.measure import Drawing, Measure, NothingToMeasure
from relpos.measures.sample import Sample
from relpos.model.encoder import Encoder, encoder_of
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
RECOVERED = {
    "loss_recovered": ("loss", 1),
    "gap_recovered": ("order_gap", -1),
    "output_recovered": ("output_distance", 1),
}
"""Column → the quantity of which it is the regained share, and the sign with which removing the
positions changes that."""
ENDS = ("loss_recovered_low", "loss_recovered_high")
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
        head_texts: of the same length, on which a head is trained where the network has none.
    """

    functions: Sequence[Count] = (1, 3, 5)
    seeds: Count = 3
    texts: Count = 64
    length: Count = 126
    head_texts: Count = 1024

    by_name = True

    def measure(self, sample: Sample) -> Plain:
        """`removal`: of each network a row with its loss, order gap and distances, and what it
        regains of each, see `compared`."""
        if not self.functions:
            raise RelposError("functions=[]: at least one is needed")
        model = self._with_head(sample)
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

    def _with_head(self, sample: Sample) -> MaskedLM:
        model = sample.any_model
        encoder = encoder_of(model)
        # What cannot be measured is refused before a head is trained, which takes minutes.
        if encoder.causal:
            raise RelposError(
                f"{sample.network.name}: a causal network has no masked tokens, "
                f"whose loss `removal` measures"
            )
        fold_positions(copy.deepcopy(encoder))
        if not isinstance(model, MaskedLM):
            try:
                texts = sample.texts(self.head_texts, self.length, "train")
            except NothingToMeasure as error:
                raise NothingToMeasure(
                    f"{error} (a head that predicts words is trained on it: this network has none)"
                ) from error
            model = train_head(encoder, texts, sample.tokenizer)
        return model

    def drawn(self, name: str, results: Plain) -> Iterator[Drawing]:
        rows = results["removal"]
        columns = {
            key: np.array([row[key] for row in rows], np.float64)
            for key in rows[0]
            if key != "network"
        }
        places = range(len(rows))
        colours = [style.COLOURS[0]] * 2 + [style.COLOURS[1]] * (len(rows) - 2)
        figure, panels = style.grid(4, 4, 3.0, 0.32 * len(rows))
        for axes, (key, title) in zip(panels, PANELS.items(), strict=True):
            axes.set_title(title, fontsize=8)
            axes.set_ylim(len(rows) - 0.4, -0.6)
            axes.set_yticks(places, [""] * len(rows))
            axes.scatter(columns[key], places, s=16, color=colours)
            axes.margins(x=0.1)
            axes.locator_params(axis="x", nbins=5)
            axes.grid(axis="y", color="0.9", linewidth=0.8)
            axes.set_axisbelow(True)
        loss, _, outputs, regained = panels
        loss.set_yticks(places, [row["network"] for row in rows])
        outputs.scatter(
            columns["cls_distance"],
            places,
            s=20,
            facecolors="none",
            edgecolors="0.35",
            linewidths=0.9,
        )
        regained.hlines(places, *map(columns.get, ENDS), color=style.COLOURS[1], linewidth=1.2)
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
    for row in torch.arange(len(texts)).split(BATCH):
        ids = texts[row]
        # Before the words are moved: the same tokens are masked in either order.
        lengths = torch.full_like(row, ids.shape[1])
        shown, labels, _ = masked.of(
            Unmasked(ids, lengths, row, seed, tokenizer.size, tokenizer.marks)
        )
        if words is not None:
            order = _order(ids, row[:, None], words)
            shown = shown.gather(1, order)
            labels = labels.gather(1, order)
        labels = nn.functional.pad(labels, (1, 1), value=IGNORED)
        batches.append((with_edges(shown, tokenizer.marks), labels))
    return batches


def _order(ids: Ids, row: Tensor, words: Words) -> Tensor:
    """(b, n): where each token comes from; the pieces of a word stay together."""
    word = torch.from_numpy(words.numbers(ids.numpy()))
    draw = (counter_hash(_SHUFFLE, row, word) >> 11).numpy()
    return torch.from_numpy(np.lexsort((word.numpy(), draw), axis=1))


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
    yield "removed", _changed(model, average_positions)
    # What random parameters can do is asked once, where they have most freedom.
    largest = max(functions)
    for count in functions:
        regressed = _changed(model, change_positions, Change("remove", tisa=count), length, 0)
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
    those after the first two regain, None where nothing was lost: of the loss that removing the
    positions adds the fraction `loss_recovered`, with its interval over texts, `loss_recovered_low`
    and `loss_recovered_high`; of the gap `gap_recovered`; of the distance `output_recovered`.

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
    rows: list[Plain] = []
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
            **dict.fromkeys(("loss_recovered", *ENDS, *RECOVERED)),
        }
        losses.append(of_texts)
        rows.append(row)
        if len(rows) > 2:
            intact, removed = rows[:2]
            for share, (quantity, sign) in RECOVERED.items():
                worst = sign * removed[quantity]
                lost = worst - sign * intact[quantity]
                if lost > 0:
                    row[share] = (worst - sign * row[quantity]) / lost
            if ends := share_interval(losses[1] - of_texts, losses[1] - losses[0]):
                row |= zip(ENDS, ends, strict=True)
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


def share_interval(regained: Floats, lost: Floats) -> Ends | None:
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
    bare = _changed(model, fold_positions)
    # The caller's random numbers go on as if nothing had been drawn.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        add_tisa(bare.encoder, functions)
    return bare


def _with_matrices(model: MaskedLM, matrices: Matrices) -> MaskedLM:
    """A copy with a matrix for each layer and head, such as F̂_P itself, added to the scores in
    place of the position embeddings."""
    bare = _changed(model, fold_positions)
    scheme = bare.encoder.position
    fixed = _Matrices(scheme.shape)
    fixed.matrices = [heads.float() for heads in matrices]
    # A merge makes its parts by functions of the shape.
    bare.encoder.position = Merge(scheme.shape, [lambda _: scheme, lambda _: fixed])
    return bare


def _toeplitz(heads: Float[Tensor, "heads n n"]) -> Float[Tensor, "heads n n"]:
    """The Toeplitz matrix nearest to each head: no choice of TISA's parameters is nearer."""
    token = torch.arange(heads.shape[-1])
    offset = token - token[:, None] + len(token) - 1
    return torch.stack([torch.from_numpy(diagonal_means(head))[offset] for head in heads])


def _changed(model: MaskedLM, change: Callable[..., object], *arguments: object) -> MaskedLM:
    copied = copy.deepcopy(model)
    change(copied.encoder, *arguments)
    return copied


class _Matrices(Scheme):
    """Adds a given matrix to the scores of each layer and head."""

    matrices: list[Tensor]

    def terms(self, layer: int, q: Tensor, k: Tensor, state: None) -> Terms:
        n = q.shape[2]
        return Terms(dense=self.matrices[layer][None, :, :n, :n].to(q.dtype))


def train_head(
    encoder: Encoder,
    texts: Ids,
    tokenizer: Tokenizer,
    epochs: int = 4,
    rows: int = 128,
    lr: float = 2e-3,
) -> MaskedLM:
    """The encoder with a new head that is trained to predict the masked words from its outputs; the
    encoder is not trained.

    The outputs are computed once. The head is BERT's, tied to the word table; its bias begins as
    the logarithm of the words' frequencies (plus 0.1, so that words that are not in the texts have
    one), its linear map as the identity where the widths are equal. Words that are never to be
    predicted are left out of the softmax while the head is trained.
    """
    model = MaskedLM(encoder).requires_grad_(False)
    head, narrow = model.head, model.head.narrow
    # Once: the encoder does not change while its head is trained.
    features, targets = [], []
    encoder.eval()
    with torch.no_grad():
        for ids, labels in masked_texts(texts, tokenizer, seed=1):
            chosen = (labels != IGNORED).flatten().nonzero().squeeze(1)
            features.append(encoder(ids, at=chosen))
            targets.append(labels.flatten()[chosen])
        counts = torch.bincount(texts.flatten(), minlength=len(model.table)).float() + 0.1
        head.bias.copy_((counts / counts.sum()).log())
        if narrow.in_features == narrow.out_features:
            # Training then begins at the outputs themselves, not at random mixtures of them.
            nn.init.eye_(narrow.weight)
            if narrow.bias is not None:
                nn.init.zeros_(narrow.bias)
    x = torch.cat(features)
    y = torch.cat(targets)
    optimizer = torch.optim.AdamW(head.requires_grad_(True).parameters(), lr=lr)
    steps = epochs * -(-len(x) // rows)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    generator = torch.Generator().manual_seed(0)
    # A softmax over the words to be predicted is many times smaller; training would only lower all
    # other words.
    targeted, y = torch.unique(y, return_inverse=True)
    table = model.table[targeted].detach()
    for _ in range(epochs):
        for part in torch.randperm(len(x), generator=generator).split(rows):
            logits = nn.functional.linear(head.transform(x[part]), table, head.bias[targeted])
            loss = nn.functional.cross_entropy(logits, y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.requires_grad_(False).eval()

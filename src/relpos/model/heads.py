"""The heads on the encoder: masked language model, ELECTRA's discriminator, classifier."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int, Real, Shaped
from torch import Tensor, nn
from torch.nn import functional

from relpos.model.architecture import Architecture, ClassifierKind
from relpos.model.block import ACTIVATIONS, Block
from relpos.model.dropout import Dropout
from relpos.model.encoder import Encoder
from relpos.model.initial import normal_
from relpos.model.kernels import sweeps
from relpos.model.loss import IGNORED, tied_cross_entropy
from relpos.model.shape import Ids
from relpos.model.tokens import Tokens, in_batch


class Head(nn.Module):
    """(..., hidden) → (..., vocabulary): linear map to the embedding's width, activation, norm,
    word table transposed, bias.

    The word table is passed in: that of the encoder or, where `tied` is false, the head's own
    `table` (vocabulary, embedding).
    """

    def __init__(
        self,
        hidden: int,
        embedding: int,
        vocabulary: int,
        activation: str,
        block: Block,
        tied: bool = True,
    ) -> None:
        super().__init__()
        self.plain = block.plain and activation == "gelu"
        self.narrow = nn.Linear(hidden, embedding, block.bias)
        self.activation = ACTIVATIONS[activation]
        self.norm: Any = block.norm_of(embedding)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        # Published checkpoints may have one; networks trained here are tied.
        self.table = (
            None if tied else normal_(nn.Parameter(torch.empty(vocabulary, embedding)), 0.02)
        )

    def transform(
        self,
        x: Float[Tensor, "*batch hidden"],
        swept: bool = False,
    ) -> Float[Tensor, "*batch embedding"]:
        """(..., hidden) → (..., embedding): what the word table is multiplied with; `swept` on a
        CPU, as in `loss_sum`."""
        if swept and self.plain and x.device.type == "cpu":
            return sweeps.transform(x, self.narrow, self.norm)
        x = self.activation(self.narrow(x))
        # autocast would do this for a layer norm, and not for RMS
        return self.norm(x.to(self.narrow.weight.dtype))

    def forward(
        self,
        x: Float[Tensor, "*batch hidden"],
        words: Float[Tensor, "vocabulary embedding"],
    ) -> Float[Tensor, "*batch vocabulary"]:
        return functional.linear(self.transform(x), words, self.bias)


class MaskedLM(nn.Module):
    """The encoder with a masked-language-modelling head. If the encoder is causal, it is a language
    model: the output at token i predicts token i + 1.

    Labels stand at the token that is predicted, whichever output predicts it.

    Args:
        activation: of the head; None: that of the encoder.
        tied: the logits are products with the encoder's word table; false: with a table of the
            head's own.
    """

    architecture: Architecture

    def __init__(self, encoder: Encoder, activation: str | None = None, tied: bool = True) -> None:
        super().__init__()
        self.encoder = encoder
        shape = encoder.shape
        words = encoder.embedding.words
        activation = activation or encoder.activation
        self.head = Head(
            shape.hidden,
            shape.embedding,
            words.num_embeddings,
            activation,
            encoder.block,
            tied,
        )

    @property
    def table(self) -> Float[Tensor, "vocabulary embedding"]:
        """The table with which the head's output is multiplied."""
        return self.encoder.embedding.words.weight if self.head.table is None else self.head.table

    def forward(
        self,
        input_ids: Ids,
        attention_mask: Shaped[Tensor, "batch n"] | None = None,
        token_types: Ids | None = None,
    ) -> Float[Tensor, "batch n vocabulary"]:
        """Logits (B, n, vocabulary) at every token."""
        return self.head(self.encoder(input_ids, attention_mask, token_types), self.table)

    def loss_sum(
        self,
        input_ids: Ids,
        labels: Ids,
        attention_mask: Shaped[Tensor, "batch n"] | None = None,
        token_types: Ids | None = None,
        at: Int[Tensor, "outputs"] | None = None,
        weights: Float[Tensor, "batch"] | None = None,
        held: Tokens | None = None,
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""], Real[Tensor, ""]]:
        """(sum of the losses, number of tokens at which the head ran, number predicted right). It
        runs at the chosen tokens only.

        Args:
            at: the head runs at these tokens instead, the chosen ones and others, which do not
                count, so that the CPU need not wait for the device to count the chosen. A causal
                network, which chooses nearly all, runs it at all that are computed.
            weights: by how much the losses and the hits of each row count. Both are for training
                alone: without gradients `weights` counts for nothing, and `at` fails where it holds
                    others than the chosen tokens.
            held: the tokens that the encoder computes, see there.
        """
        labels = at_outputs(self.encoder, labels).flatten()
        padded = at is not None
        if at is None:
            at = labels.ne(IGNORED).nonzero().squeeze(1)
        elif self.encoder.causal:  # whose outputs stand elsewhere than what they predict
            at = (
                torch.arange(len(labels), device=labels.device)
                if held is None or held.at is None
                else held.at
            )
        x = self.encoder(input_ids, attention_mask, token_types, at, held=held)
        of_tokens = None if weights is None else weights[at // input_ids.shape[1]]
        # On a CPU weighted losses keep the order of sums that committed results have.
        swept = (weights is None or x.device.type != "cpu") and sweeps.serve(
            self.encoder.kernel,
            x,
            self.training,
        )
        x = self.head.transform(x, swept)
        total, right = tied_cross_entropy(
            x,
            self.table,
            self.head.bias,
            labels[at],
            padded,
            swept,
            of_tokens,
        )
        return total, torch.tensor(len(at)), right

    def loss(
        self,
        input_ids: Ids,
        labels: Ids,
        attention_mask: Shaped[Tensor, "batch n"] | None = None,
        token_types: Ids | None = None,
    ) -> Float[Tensor, ""]:
        """Mean cross-entropy over the tokens whose label is not −100; 0 where there is none. A
        causal network predicts no first token."""
        total, number, _ = self.loss_sum(input_ids, labels, attention_mask, token_types)
        return total / max(int(number), 1)


def at_outputs(encoder: Encoder, labels: Ids) -> Ids:
    """Labels (B, n) of tokens → (B, n) of the outputs that predict them: those of a causal encoder
    one token earlier."""
    return functional.pad(labels[:, 1:], (0, 1), value=IGNORED) if encoder.causal else labels


class ReplacedTokens(nn.Module):
    """The encoder with the head of ELECTRA's discriminator (Clark et al. 2020): linear map,
    activation, linear map to one logit per token, which is positive where the token is judged to be
    a replaced one.
    """

    architecture: Architecture

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.dense = nn.Linear(encoder.shape.hidden, encoder.shape.hidden)
        self.activation = ACTIVATIONS[encoder.activation]
        self.output = nn.Linear(encoder.shape.hidden, 1)

    def forward(
        self,
        input_ids: Ids,
        attention_mask: Shaped[Tensor, "batch n"] | None = None,
        token_types: Ids | None = None,
    ) -> Float[Tensor, "batch n"]:
        """Logits (B, n)."""
        x = self.encoder(input_ids, attention_mask, token_types)
        return self.output(self.activation(self.dense(x))).squeeze(-1)


class Classifier(nn.Module):
    """Encoder → pooler (linear, tanh, on the first token, or on the last real one if the encoder is
    causal) → dropout → linear to the labels; one label means regression.

    Args:
        kind: `jiant` has dropout, a linear map and tanh between pooler and dropout, as jiant 2 has
            on top of a pooled output; `mean` gives the pooler the mean of the outputs at real
            tokens, as sentence encoders do (Reimers & Gurevych 2019, §3); `jiant_mean` does both.
    """

    architecture: Architecture

    def __init__(
        self,
        encoder: Encoder,
        labels: int,
        dropout: float = 0.1,
        kind: ClassifierKind = "plain",
    ) -> None:
        super().__init__()
        self.encoder = encoder
        dense = kind in ("jiant", "jiant_mean")
        self.mean = kind in ("mean", "jiant_mean")
        self.pooler = nn.Linear(encoder.shape.hidden, encoder.shape.hidden)
        self.dense = nn.Linear(encoder.shape.hidden, encoder.shape.hidden) if dense else None
        self.dropout = Dropout(dropout)
        self.dense_dropout = Dropout(dropout) if dense else None
        self.classifier = nn.Linear(encoder.shape.hidden, labels)
        # Here too, because most classifiers are put on a trained encoder, which is not initialised
        # again.
        for part in (
            (self.pooler, self.classifier)
            if self.dense is None
            else (self.pooler, self.dense, self.classifier)
        ):
            normal_(part.weight, 0.02)
            nn.init.zeros_(part.bias)

    def forward(
        self,
        input_ids: Ids,
        attention_mask: Shaped[Tensor, "batch n"] | None = None,
        token_types: Ids | None = None,
        held: Tokens | None = None,
    ) -> Float[Tensor, "batch labels"]:
        """(B, labels). `held` are the tokens that the encoder computes, see there."""
        if self.mean:
            x = self.encoder(input_ids, attention_mask, token_types, held=held)
            x = _mean(x if held is None else held.spread(x), attention_mask)
        else:  # of the last layer, the rows of these tokens alone
            x = self.encoder(
                input_ids,
                attention_mask,
                token_types,
                _of_row(self.encoder, input_ids, attention_mask),
                held=held,
            )
        return class_logits(self, x)


def class_logits(parts: Any, x: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch labels"]:
    """(B, labels) of the vector that stands for each row, in float32 or wider; `parts` is a
    `Classifier`, or a module of another library that has its parts."""
    x = torch.tanh(parts.pooler(x))
    if parts.dense is not None:
        x = torch.tanh(parts.dense(parts.dense_dropout(x)))
    logits: Tensor = parts.classifier(parts.dropout(x))
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def pooled(
    encoder: Encoder,
    x: Float[Tensor, "batch n hidden"],
    attention_mask: Shaped[Tensor, "batch n"] | None,
    mean: bool,
) -> Float[Tensor, "batch hidden"]:
    """The output that stands for each row, out of those of all tokens: of one token, or the
    mean."""
    if mean:
        return _mean(x, attention_mask)
    return x.flatten(0, 1)[_of_row(encoder, x[..., 0], attention_mask)]


def _mean(
    x: Float[Tensor, "batch n hidden"],
    attention_mask: Shaped[Tensor, "batch n"] | None,
) -> Float[Tensor, "batch hidden"]:
    """The mean over the real tokens of each row; zeros for a row of padding, whose outputs are no
    numbers."""
    if attention_mask is None:
        return x.mean(1)
    # In bfloat16 more than 256 tokens could not be counted.
    real = attention_mask.to(torch.promote_types(x.dtype, torch.float32)).unsqueeze(2)
    return (x.masked_fill(real == 0, 0).to(real.dtype).sum(1) / real.sum(1).clamp(min=1)).to(
        x.dtype
    )


def _of_row(
    encoder: Encoder,
    like: Shaped[Tensor, "batch n"],
    attention_mask: Shaped[Tensor, "batch n"] | None,
) -> Int[Tensor, "batch"]:
    """The place in the batch of the token that stands for each row: the first one; if the encoder
    is causal, the last real one."""
    real = (
        torch.ones_like(like, dtype=torch.int64)
        if attention_mask is None
        else attention_mask.to(torch.int64)
    )
    columns = torch.zeros_like(real[:, 0])
    n = like.shape[1]
    if encoder.causal:
        # The largest column of a real token, whichever side the padding is on.
        columns = (real * torch.arange(n, device=like.device)).argmax(1)
    return in_batch(columns, n)

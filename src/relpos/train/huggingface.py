"""The classes with which `AutoModel…` opens folders whose `model_type` is relpos, which registers
them: the encoder, and heads on it with the losses of transformers' BERT. A folder's own code does
    not register itself, because another folder may have other code.

Where relpos is not installed, the classes come with the folder (standalone.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import MaskedLMOutput, SequenceClassifierOutput
from transformers.utils import ModelOutput, can_return_tuple

from relpos.errors import RelposError
from relpos.model.architecture import Architecture
from relpos.model.heads import at_outputs, class_logits, pooled

# whoever registers the classes looks for it here
from relpos.train.huggingface_config import RelposConfig as RelposConfig
from relpos.train.huggingface_model import RelposModel as RelposModel  # and `AutoModel` for this
from relpos.train.huggingface_model import RelposPreTrainedModel


class _WithHead(RelposPreTrainedModel):
    """A network with a head that gives `logits`. Transformers reads the names of the arguments in
    the signature of `forward`."""

    _result: type[ModelOutput]  # the kind of what `forward` returns

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> ModelOutput:
        """`logits`; with `labels` the mean `loss`, too."""
        outputs = self.encoder(
            input_ids,
            attention_mask,
            token_type_ids,
            inputs_embeds,
            output_attentions,
            output_hidden_states,
            return_dict=True,
        )
        logits = self._logits(outputs.last_hidden_state, attention_mask)
        return self._result(
            loss=None if labels is None else self._loss(logits, labels),
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )

    def _logits(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """The logits from the encoder's output (B, n, hidden)."""
        raise NotImplementedError

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(logits.flatten(0, -2), labels.view(-1))


class RelposForMaskedLM(_WithHead):
    """The encoder with its masked-language-modelling head: `logits` (B, n, vocabulary), and the
    mean cross-entropy.

    `labels` (B, n), −100: not predicted, stand at the token that is predicted, whichever logits
    predict it.

    Raises:
        RelposError: the network is causal.
    """

    causal = False
    _result = MaskedLMOutput

    def _adopt(self, network: Any) -> None:
        super()._adopt(network)
        self.head = network.head
        if network.encoder.causal != self.causal:
            kinds = ("bidirectional", "AutoModelForMaskedLM"), ("causal", "AutoModelForCausalLM")
            kind, auto = kinds[network.encoder.causal]
            raise RelposError(f"this network is {kind}: {auto} opens it")

    def _table(self) -> Tensor:
        table: Tensor | None = self.head.table
        return self._embedding().words.weight if table is None else table

    def get_output_embeddings(self) -> nn.Linear:
        """The linear map to the logits: of the word table, or of the head's own, and the head's
        bias."""
        linear = nn.Linear(1, 1, device="meta")
        linear.weight = nn.Parameter(self._table())
        linear.bias = self.head.bias
        linear.out_features, linear.in_features = linear.weight.shape
        return linear

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replaces bias and table; a tied table is the word table."""
        self.head.bias = new_embeddings.bias
        if self.head.table is not None:
            self.head.table = new_embeddings.weight

    def resize_token_embeddings(self, *arguments: object, **options: object) -> nn.Embedding:
        """As for every model of transformers; the bias has as many numbers as the table has rows,
        new ones 0."""
        words: nn.Embedding = super().resize_token_embeddings(*arguments, **options)
        if new := words.num_embeddings - len(self.head.bias):
            self.head.bias = nn.Parameter(
                functional.pad(self.head.bias.detach(), (0, new)),
                self.head.bias.requires_grad,
            )
        return words

    def _logits(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        return self.head(x, self._table())

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super()._loss(
            logits,
            at_outputs(self.encoder.network, labels.view(logits.shape[:2])),
        )


class RelposForCausalLM(RelposForMaskedLM):
    """A causal encoder with its head: the logits at a token predict the next one.

    Raises:
        RelposError: the network is bidirectional, and would see the token that it is asked for.
    """

    causal = True


class RelposForSequenceClassification(_WithHead):
    """The encoder with pooler and classifier of a text: `logits` (B, labels); one label means
    regression.

    The loss is the mean of what `config.problem_type` says: cross-entropy, squared error, or for
    several labels at once the cross-entropy of each. None: what number of labels and type of
    numbers suggest.
    """

    _result = SequenceClassifierOutput
    _keys_to_ignore_on_load_unexpected = [r"^head\."]  # noqa: RUF012

    def _architecture(self) -> Architecture:
        self.num_labels = self.config.num_labels
        return replace(super()._architecture(), outputs=self.num_labels)

    def _adopt(self, network: Any) -> None:
        super()._adopt(network)
        self.pooler = network.pooler
        self.dropout = network.dropout
        self.classifier = network.classifier
        self.dense, self.dense_dropout = network.dense, network.dense_dropout
        self.mean = network.mean

    def _logits(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        return class_logits(self, pooled(self.encoder.network, x, attention_mask, self.mean))

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.config.problem_type == "regression" or (
            self.config.problem_type is None and self.num_labels == 1
        ):
            labels = labels.to(logits.dtype)
        return self.loss_function(labels=labels, pooled_logits=logits, config=self.config)

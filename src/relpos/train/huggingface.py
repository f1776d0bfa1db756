"""The classes with which `AutoModel…` opens folders whose `model_type` is relpos, which registers them: the encoder, and heads on
it with the losses of transformers' BERT. A folder's own code does not register itself, because another folder may have other code.

Where relpos is not installed, the classes come with the folder (standalone.py).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import (
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from relpos.errors import RelposError
from relpos.model.dropout import Dropout
from relpos.model.heads import at_outputs, class_logits, pooled
from relpos.model.initial import normal_
from relpos.train.huggingface_config import RelposConfig
from relpos.train.huggingface_model import RelposModel as RelposModel  # `AutoModel` looks for it here
from relpos.train.huggingface_model import RelposPreTrainedModel, without_head
from relpos.train.network import network


class _WithHead(RelposPreTrainedModel):
    """A network with a head that gives `logits`. Transformers reads the names of the arguments in the signature of `forward`."""

    _result: Any  # the kind of what `forward` returns

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
    ) -> Any:
        """`logits`; with `labels` the mean `loss`, too."""
        first = input_ids if inputs_embeds is None else inputs_embeds
        given = (input_ids, attention_mask, token_type_ids, inputs_embeds)
        rows = [None if x is None else self._rows(x) for x in given]
        outputs = self.encoder(*rows, output_attentions, output_hidden_states, return_dict=True)
        logits = self._logits(outputs.last_hidden_state, rows[1], first)
        loss = None if labels is None else self._loss(logits, labels)
        return self._result(loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions)

    def _rows(self, x: Tensor) -> Tensor:
        """An input as the encoder takes it."""
        return x

    def _logits(self, x: Tensor, attention_mask: Tensor | None, given: Any) -> Tensor:
        """From the encoder's output (B, n, hidden); `given` are the ids or vectors that the network is given."""
        raise NotImplementedError

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(logits.flatten(0, -2), labels.view(-1))


class RelposForMaskedLM(_WithHead):
    """The encoder with its masked-language-modelling head: `logits` (B, n, vocabulary), and the mean cross-entropy.

    `labels` (B, n), −100: not predicted, stand at the token that is predicted, whichever logits predict it.

    Raises:
        RelposError: the network is causal.
    """

    causal = False
    _result = MaskedLMOutput

    def _adopt(self, made: Any) -> None:
        super()._adopt(made)
        self.head = made.head
        if made.encoder.causal != self.causal:
            kinds = ("bidirectional", "AutoModelForMaskedLM"), ("causal", "AutoModelForCausalLM")
            kind, auto = kinds[made.encoder.causal]
            raise RelposError(f"this network is {kind}: {auto} opens it")

    def _table(self) -> Tensor:
        table: Tensor = self._embedding().words.weight if self.head.table is None else self.head.table
        return table

    def get_output_embeddings(self) -> nn.Linear:
        """The linear map to the logits: of the word table, or of the head's own, and the head's bias."""
        linear = nn.Linear(1, 1, device="meta")
        linear.weight, linear.bias = nn.Parameter(self._table()), self.head.bias
        linear.out_features, linear.in_features = linear.weight.shape
        return linear

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replaces bias and table; a tied table is the word table."""
        self.head.bias = new_embeddings.bias
        if self.head.table is not None:
            self.head.table = new_embeddings.weight

    def resize_token_embeddings(self, *arguments: Any, **options: Any) -> nn.Embedding:
        """As for every model of transformers; the bias has as many numbers as the table has rows, new ones 0."""
        words: nn.Embedding = super().resize_token_embeddings(*arguments, **options)
        if new := words.num_embeddings - len(self.head.bias):
            self.head.bias = nn.Parameter(functional.pad(self.head.bias.detach(), (0, new)), self.head.bias.requires_grad)
        return words

    def _logits(self, x: Tensor, attention_mask: Tensor | None, given: Any) -> Tensor:
        logits: Tensor = self.head(x, self._table())
        return logits

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super()._loss(logits, at_outputs(self.encoder.network, labels.view(logits.shape[:2])))


class RelposForCausalLM(RelposForMaskedLM):
    """The same of a causal network: the logits at a token predict the next one.

    Raises:
        RelposError: the network is bidirectional, and would see the token that it is asked for.
    """

    causal = True


class RelposForSequenceClassification(_WithHead):
    """The encoder with pooler and classifier of a text: `logits` (B, labels); one label means regression.

    The loss is the mean of what `config.problem_type` says: cross-entropy, squared error, or for several labels at once the
    cross-entropy of each. None: what number of labels and type of numbers suggest.
    """

    _result: Any = SequenceClassifierOutput
    _keys_to_ignore_on_load_unexpected = [r"^head\."]  # noqa: RUF012
    outputs: int | None = None  # those of its classifier; None: as many as labels

    def _network(self, filled: bool) -> nn.Module:
        self.num_labels = self.config.num_labels
        return network(self.config.settings() | {"outputs": self.outputs or self.num_labels}, filled)

    def _adopt(self, made: Any) -> None:
        super()._adopt(made)
        self.pooler, self.dropout, self.classifier = made.pooler, made.dropout, made.classifier
        self.dense, self.dense_dropout, self.mean = made.dense, made.dense_dropout, made.mean

    def _logits(self, x: Tensor, attention_mask: Tensor | None, given: Any) -> Tensor:
        return class_logits(self, pooled(self.encoder.network, x, attention_mask, self.mean))

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.config.problem_type == "regression" or (self.config.problem_type is None and self.num_labels == 1):
            labels = labels.to(logits.dtype)
        loss: Tensor = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return loss


class RelposForMultipleChoice(RelposForSequenceClassification):
    """The same with one output: inputs (B, choices, n), `logits` (B, choices), and with `labels` (B,) the mean cross-entropy."""

    outputs = 1
    _result = MultipleChoiceModelOutput

    def _rows(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1)

    def _logits(self, x: Tensor, attention_mask: Tensor | None, given: Any) -> Tensor:
        return super()._logits(x, attention_mask, given).view(-1, given.shape[1])

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(logits, labels)


class RelposForTokenClassification(_WithHead):
    """The encoder with dropout and a linear map from each token to its labels: `logits` (B, n, labels), and with `labels` (−100:
    none) the mean cross-entropy."""

    _result = TokenClassifierOutput
    _keys_to_ignore_on_load_unexpected = [r"^(head|pooler|dense)\."]  # noqa: RUF012

    def _network(self, filled: bool) -> nn.Module:
        return _with_linear(self.config, filled, "classifier", self.config.num_labels)

    def _adopt(self, made: Any) -> None:
        super()._adopt(made)
        self.num_labels, self.classifier = self.config.num_labels, made.classifier
        self.dropout = Dropout(self.encoder.network.block.dropout)

    def _logits(self, x: Tensor, attention_mask: Tensor | None, given: Any) -> Tensor:
        logits: Tensor = self.classifier(self.dropout(x))
        return logits


class RelposForQuestionAnswering(RelposPreTrainedModel):
    """The encoder with two logits for each token: whether the answer starts or ends there."""

    _keys_to_ignore_on_load_unexpected = [r"^(head|pooler|dense|classifier)\."]  # noqa: RUF012

    def _network(self, filled: bool) -> nn.Module:
        return _with_linear(self.config, filled, "qa_outputs", 2)

    def _adopt(self, made: Any) -> None:
        super()._adopt(made)
        self.qa_outputs = made.qa_outputs

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> Any:
        """`start_logits`, `end_logits` (B, n); with both positions (B,) the mean of the two cross-entropies as `loss`; positions
        outside of the text do not count."""
        outputs = self.encoder(
            input_ids, attention_mask, token_type_ids, inputs_embeds, output_attentions, output_hidden_states, return_dict=True
        )
        start, end = self.qa_outputs(outputs.last_hidden_state).unbind(-1)
        loss = self.loss_function(start, end, start_positions, end_positions)  # None without both positions
        return QuestionAnsweringModelOutput(
            loss=loss, start_logits=start, end_logits=end, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


def _with_linear(config: RelposConfig, filled: bool, name: str, outputs: int) -> nn.ModuleDict:
    """The encoder with a linear map of this name on it."""
    encoder = without_head(config, filled)
    linear = nn.Linear(config.hidden_size, outputs, device=None if filled else "meta")
    normal_(linear.weight, 0.02)
    nn.init.zeros_(linear.bias)
    return nn.ModuleDict({"encoder": encoder, name: linear})

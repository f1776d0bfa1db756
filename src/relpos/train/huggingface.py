"""The classes with which `AutoModel…` opens folders whose `model_type` is relpos, which registers them. A folder's own code does
not register itself, because another folder may have other code.

The parameters have our own names, so that the folder opens with `relpos.load` too. The classes contain no code of the network: they
build ours and return its outputs, with the losses of transformers' BERT. Where relpos is not installed, they come with the folder
(standalone.py). Arguments that they do not know are refused by Python, by name.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_flatten, tree_unflatten
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from relpos.errors import RelposError
from relpos.model.attention import LayerCall
from relpos.model.dropout import Dropout
from relpos.model.encoder import Encoder, Layer
from relpos.model.heads import at_outputs, class_logits, pooled
from relpos.model.initial import normal_
from relpos.train.described import network
from relpos.train.huggingface_config import RelposConfig
from relpos.train.standalone import write as write_code


@cache
def _layer() -> type[Layer]:
    """`RelposLayer`, made when it is first needed: its base imports the auto classes, with which these are imported themselves."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    class RelposLayer(GradientCheckpointingLayer, Layer):
        """A layer of ours, which transformers may compute again in the backward pass instead of keeping its activations."""

        __qualname__ = "RelposLayer"

        def __call__(self, x: Tensor, read: Tensor, call: LayerCall) -> tuple[Tensor, Tensor]:
            # Tensors that several layers share are arguments: a checkpoint that differentiates by itself knows of no others.
            leaves, spec = tree_flatten(call.state)
            y: tuple[Tensor, Tensor] = super().__call__(x, read, call._replace(state=None), spec, *leaves)
            return y

        def forward(self, x: Tensor, read: Tensor, call: LayerCall, spec: Any = None, *leaves: Any) -> tuple[Tensor, Tensor]:
            """The layer's output, with the state in parts."""
            return Layer.forward(self, x, read, call._replace(state=tree_unflatten(leaves, spec)))

    return RelposLayer


def __getattr__(name: str) -> Any:
    if name == "RelposLayer":  # where a network is unpickled
        return _layer()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class RelposPreTrainedModel(PreTrainedModel):
    """Builds the network that a configuration describes, with its encoder as `encoder`."""

    config: Any  # a RelposConfig
    encoder: Any  # a RelposModel
    config_class = RelposConfig
    base_model_prefix = "encoder"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # so that Trainer divides the losses of the passes of a step by their number
    _no_split_modules = ["RelposLayer"]  # noqa: RUF012

    def __init__(self, config: RelposConfig, made: nn.Module | None = None) -> None:
        super().__init__(config)
        is_meta = torch.empty(0).device.type == "meta"  # `from_pretrained` will read the weights from a file
        self._is_part = self._is_hf_initialized = made is not None  # the network of which this one is a part draws it
        if made is None:
            # Without memory: `_init_weights` draws what no file gives.
            with torch.random.fork_rng(devices=[]):
                made = self._network(filled=False)
            for module in made.modules():  # buffers that no file stores, which `from_pretrained` overwrites
                module._computed = {name: value.clone() for name, value in module.named_buffers(recurse=False)}  # type: ignore[assignment]
        self._computed: dict[str, Tensor] = {}
        self._adopt(made)
        self.post_init()
        if not is_meta and not self._is_part:
            for name, value in list(self.named_parameters()):  # where transformers was told to draw nothing
                if value.is_meta:
                    self._replace(name, torch.empty_like(value, device="cpu"))

    def _network(self, filled: bool) -> nn.Module:
        """The network whose parts `_adopt` takes, with the names that its parameters have here."""
        return network(self.config.settings(), filled)

    def _adopt(self, made: Any) -> None:
        self.encoder = RelposModel(self.config, made.encoder)

    def get_input_embeddings(self) -> nn.Module:
        """The word table."""
        table: nn.Module = self._embedding().words
        return table

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replaces the word table."""
        self._embedding().words = value

    def _embedding(self) -> Any:
        return self.base_model.embedding

    def save_pretrained(self, save_directory: Any, is_main_process: bool = True, *arguments: Any, **options: Any) -> None:
        """As for every model of transformers; the folder carries the code of the network, as that of `relpos export`."""
        if is_main_process and (auto_map := write_code(Path(save_directory), self.config.settings())):
            self.config.auto_map = auto_map
        super().save_pretrained(save_directory, is_main_process, *arguments, **options)

    def _initialize_weights(self, module: nn.Module, is_custom_code: bool = False) -> None:
        # Of a folder's own code, transformers passes over modules without parameters of their own, as the whole network is.
        super()._initialize_weights(module, is_custom_code=False)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draws parameters that no file has given, as those of a new network; buffers get the values that they were built with."""
        computed = getattr(module, "_computed", None)
        if computed is None:  # a head of transformers' kind, or a larger word table
            super()._init_weights(module)
            return
        for name, value in computed.items():
            init.copy_(module.get_buffer(name), value)
        given = dict(self.named_parameters()) if module is self else {}
        missing = {name: value for name, value in given.items() if not getattr(value, "_is_hf_initialized", False)}
        if not missing:
            return
        for name, drawn in self._network(filled=True).named_parameters():
            if name in missing and missing[name].is_meta:
                self._replace(name, drawn)
            elif name in missing:
                missing[name].copy_(drawn)

    def _replace(self, name: str, value: Tensor) -> None:
        place, _, last = name.rpartition(".")
        self.get_submodule(place)._parameters[last] = nn.Parameter(value)


class RelposModel(RelposPreTrainedModel):
    """The encoder, with the names of its parameters."""

    _keys_to_ignore_on_load_unexpected = [r"^(head|pooler|dense|classifier|qa_outputs)\."]  # noqa: RUF012

    network: Any  # an Encoder

    def _network(self, filled: bool) -> nn.Module:
        return _without_head(self.config, filled)

    def _adopt(self, made: Any) -> None:
        for layer in made.layers:
            layer.__class__ = _layer()
        # Its parts are ours, too, and have the same names here; as a part itself it would be saved under another one.
        self.__dict__["network"] = made
        self._modules.update(made._modules)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> Any:
        """`last_hidden_state` (B, n, hidden); where they are asked for, `hidden_states`, and `attentions` (B, heads, n, n) of the
        heads that have scores.

        Args:
            inputs_embeds: (B, n, size.embedding) in place of rows of the word table.

        Raises:
            RelposError: not one of `input_ids` and `inputs_embeds`; `attention_mask` is not (B, n); or no head has scores.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise RelposError("You must specify exactly one of input_ids or inputs_embeds")
        if attention_mask is not None and attention_mask.dim() != 2:
            raise RelposError(f"attention_mask has {attention_mask.dim()} axes; (batch, n) is expected, 1 at real tokens")
        given = input_ids if inputs_embeds is None else inputs_embeds
        maps: list[Tensor] | None = [] if _or(output_attentions, self.config.output_attentions) else None
        states = self.network(given, attention_mask, token_type_ids, hidden_states=True, maps=maps)
        if maps == []:
            raise RelposError("output_attentions: no head of this network has scores")
        keep = _or(output_hidden_states, self.config.output_hidden_states)
        return BaseModelOutput(
            last_hidden_state=states[-1], hidden_states=tuple(states) if keep else None, attentions=tuple(maps) if maps else None
        )


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


def _without_head(config: RelposConfig, filled: bool) -> Encoder:
    head = {"kind": "none", "pooler": bool((config.head or {}).get("pooler"))}
    made: Encoder = network(config.settings() | {"head": head}, filled)
    return made


def _with_linear(config: RelposConfig, filled: bool, name: str, outputs: int) -> nn.ModuleDict:
    """The encoder with a linear map of this name on it."""
    encoder = _without_head(config, filled)
    linear = nn.Linear(config.hidden_size, outputs, device=None if filled else "meta")
    normal_(linear.weight, 0.02)
    nn.init.zeros_(linear.bias)
    return nn.ModuleDict({"encoder": encoder, name: linear})


def _or(asked: bool | None, default: bool) -> bool:
    return default if asked is None else asked

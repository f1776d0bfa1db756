"""`AutoModel…` opens folders whose `model_type` is relpos. Imported when `transformers` is, see `relpos/__init__.py`.

The parameters have our own names, so that the folder opens with `relpos.load` too. The classes contain no code of the
network: they build ours and return its outputs. Where relpos is not installed, they come with the folder (standalone.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput, SequenceClassifierOutput

from relpos.errors import RelposError
from relpos.model.build import network
from relpos.model.heads import at_outputs, class_logits
from relpos.train.standalone import write as write_code
from relpos.train.huggingface_config import RelposConfig


class RelposPreTrainedModel(PreTrainedModel):
    """Builds the network that a configuration describes, with its encoder as `encoder`."""

    config_class = RelposConfig
    base_model_prefix = ""
    main_input_name = "input_ids"

    def __init__(self, config: RelposConfig, **settings: Any) -> None:
        super().__init__(config)
        is_meta = torch.empty(0).device.type == "meta"  # `from_pretrained` will read the weights from a file
        self._adopt(network(config.settings() | settings, filled=not is_meta))
        for module in self.modules():  # `from_pretrained` overwrites buffers that no file stores: `_init_weights` puts them back
            module._computed = {name: value.clone() for name, value in module.named_buffers(recurse=False)}  # type: ignore[assignment]
        self.post_init()

    def _adopt(self, model: Any) -> None:
        self.encoder = model.encoder

    def get_input_embeddings(self) -> nn.Module:
        """The word table."""
        table: nn.Module = self.encoder.embedding.words
        return table

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replaces the word table."""
        self.encoder.embedding.words = value

    def save_pretrained(self, save_directory: Any, is_main_process: bool = True, *arguments: Any, **options: Any) -> None:
        """As for every model of transformers; the folder carries the code of the network, as that of `relpos export`."""
        if is_main_process and (auto_map := write_code(Path(save_directory), self.config.settings())):
            self.config.auto_map = auto_map
        super().save_pretrained(save_directory, is_main_process, *arguments, **options)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draws parameters that the file lacks, as ours are drawn; `init` does not touch those that were read."""
        # Tables of a position scheme begin as the scheme says, often at zero.
        if isinstance(module, nn.Linear | nn.Embedding) and module not in set(self.encoder.position.modules()):
            init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                init.zeros_(module.bias)
        for name, value in getattr(module, "_computed", {}).items():
            init.copy_(getattr(module, name), value)


class RelposModel(RelposPreTrainedModel):
    """The encoder."""

    _keys_to_ignore_on_load_unexpected = [r"^head\.", r"^pooler\.", r"^classifier\."]  # noqa: RUF012

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **_: Any,
    ) -> Any:
        """`last_hidden_state` (B, n, hidden), and `hidden_states` where they are asked for."""
        states = self.encoder(input_ids, attention_mask, token_type_ids, hidden_states=True)
        return BaseModelOutput(last_hidden_state=states[-1], hidden_states=tuple(states) if output_hidden_states else None)


class RelposForMaskedLM(RelposPreTrainedModel):
    """The encoder with its masked-language-modelling head.

    Raises:
        RelposError: the network is causal.
    """

    causal = False

    def _adopt(self, model: Any) -> None:
        self.encoder, self.head = model.encoder, model.head
        if self.encoder.causal != self.causal:
            kinds = ("bidirectional", "AutoModelForMaskedLM"), ("causal", "AutoModelForCausalLM")
            kind, auto = kinds[self.encoder.causal]
            raise RelposError(f"this network is {kind}: {auto} opens it")

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **_: Any,
    ) -> Any:
        """`logits` (B, n, vocabulary); with `labels` (−100: not predicted) the mean cross-entropy as `loss`.

        Labels stand at the token that is predicted, whichever logits predict it.
        """
        states = self.encoder(input_ids, attention_mask, token_type_ids, hidden_states=True)
        table = self.encoder.embedding.words.weight if self.head.table is None else self.head.table
        logits = self.head(states[-1], table)
        loss = None
        if labels is not None:
            loss = functional.cross_entropy(logits.flatten(0, 1), at_outputs(self.encoder, labels).flatten())
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=tuple(states) if output_hidden_states else None)


class RelposForCausalLM(RelposForMaskedLM):
    """The same of a causal network: the logits at a token predict the next one.

    Raises:
        RelposError: the network is bidirectional, and would see the token that it is asked for.
    """

    causal = True


class RelposForSequenceClassification(RelposPreTrainedModel):
    """The encoder with pooler and classifier; one label means regression.

    Raises:
        RelposError: another number of labels is asked for than the network of the folder has.
    """

    _keys_to_ignore_on_load_unexpected = [r"^head\."]  # noqa: RUF012

    def __init__(self, config: RelposConfig) -> None:
        if config.outputs not in (None, config.num_labels):
            raise RelposError(f"num_labels={config.num_labels}: this network has {config.outputs} outputs")
        super().__init__(config, outputs=config.outputs or config.num_labels)

    def _adopt(self, model: Any) -> None:
        self.encoder, self.pooler, self.dropout, self.classifier = model.encoder, model.pooler, model.dropout, model.classifier
        self.dense, self.dense_dropout, self.mean = model.dense, model.dense_dropout, model.mean

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **_: Any,
    ) -> Any:
        """`logits` (B, labels); with `labels` the mean cross-entropy, or squared error, as `loss`."""
        logits = class_logits(self, input_ids, attention_mask, token_type_ids)
        loss = None
        if labels is not None and logits.shape[1] == 1:
            loss = functional.mse_loss(logits.squeeze(1), labels.to(logits.dtype))
        elif labels is not None:
            loss = functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

"""A network of ours as a `PreTrainedModel` of transformers: built from its configuration, drawn
where no file has it, and saved.

The parameters have our own names, so that the folder opens with `relpos.load` too. The classes
contain no code of the network: they build ours and return its outputs. Arguments that they do not
know are refused by Python, by name.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import can_return_tuple

from relpos.errors import RelposError
from relpos.model.architecture import Architecture, HeadOptions
from relpos.model.attention import LayerCall
from relpos.model.build import build
from relpos.model.encoder import Layer
from relpos.ranges import parsed
from relpos.train.huggingface_config import RelposConfig
from relpos.train.standalone import write as write_code


@cache
def _layer() -> type[Layer]:
    """`RelposLayer`, made when it is first needed: its base imports the auto classes, with which
    these are imported themselves."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    class RelposLayer(GradientCheckpointingLayer, Layer):
        """A layer of ours, which transformers may compute again in the backward pass instead of
        keeping its activations."""

        __qualname__ = "RelposLayer"

        def __call__(self, x: Tensor, read: Tensor, call: LayerCall) -> tuple[Tensor, Tensor]:
            # Tensors that several layers share are arguments: a checkpoint that differentiates by
            # itself knows of no others.
            leaves, spec = tree_flatten(call.state)
            return super().__call__(x, read, call._replace(state=None), spec, *leaves)

        def forward(
            self,
            x: Tensor,
            read: Tensor,
            call: LayerCall,
            spec: Any = None,
            *leaves: object,
        ) -> tuple[Tensor, Tensor]:
            """The layer's output, with the state in parts."""
            return Layer.forward(self, x, read, call._replace(state=tree_unflatten(leaves, spec)))

    return RelposLayer


def __getattr__(name: str) -> object:
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
    # so that Trainer divides the losses of the passes of a step by their number
    accepts_loss_kwargs = False
    _no_split_modules = ["RelposLayer"]  # noqa: RUF012

    def __init__(self, config: RelposConfig, network: nn.Module | None = None) -> None:
        super().__init__(config)
        # `from_pretrained` will read the weights from a file
        is_meta = torch.empty(0).device.type == "meta"
        # the network of which this one is a part draws its parameters
        self._is_part = self._is_hf_initialized = network is not None
        if network is None:
            # Without memory: `_init_weights` draws what no file gives.
            with torch.random.fork_rng(devices=[]):
                network = self._network(filled=False)
            # buffers that no file stores, which `from_pretrained` overwrites
            for module in network.modules():
                module._computed = {
                    name: value.clone() for name, value in module.named_buffers(recurse=False)
                }
        self._computed: dict[str, Tensor] = {}
        self._adopt(network)
        self.post_init()
        if not is_meta and not self._is_part:
            # where transformers was told to draw nothing
            for name, value in list(self.named_parameters()):
                if value.is_meta:
                    self._replace(name, torch.empty_like(value, device="cpu"))

    def _network(self, filled: bool) -> Any:
        """The network whose parts `_adopt` takes, with the names that its parameters have here."""
        return build(self._architecture(), filled=filled)

    def _architecture(self) -> Architecture:
        return parsed(Architecture, self.config.settings())

    def _adopt(self, network: Any) -> None:
        self.encoder = RelposModel(self.config, network.encoder)

    def get_input_embeddings(self) -> nn.Module:
        """The word table."""
        return self._embedding().words

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replaces the word table."""
        self._embedding().words = value

    def _embedding(self) -> Any:
        return self.base_model.embedding

    def save_pretrained(
        self,
        save_directory: str | Path,
        is_main_process: bool = True,
        *arguments: object,
        **options: object,
    ) -> None:
        """As for every model of transformers; the folder carries the code of the network, as that
        of `relpos export`."""
        if is_main_process and (auto_map := write_code(Path(save_directory), self._architecture())):
            self.config.auto_map = auto_map
        super().save_pretrained(save_directory, is_main_process, *arguments, **options)

    def _initialize_weights(self, module: nn.Module, is_custom_code: bool = False) -> None:
        # Of a folder's own code, transformers passes over modules without parameters of their own,
        # as the whole network is.
        super()._initialize_weights(module, is_custom_code=False)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draws parameters that no file has given, as those of a new network; buffers get the
        values that they were built with."""
        computed = getattr(module, "_computed", None)
        if computed is None:  # a head of transformers' kind, or a larger word table
            super()._init_weights(module)
            return
        for name, value in computed.items():
            init.copy_(module.get_buffer(name), value)
        missing = {}
        if module is self:
            missing = {
                name: value
                for name, value in self.named_parameters()
                if not getattr(value, "_is_hf_initialized", False)
            }
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

    _keys_to_ignore_on_load_unexpected = [r"^(head|pooler|dense|classifier)\."]  # noqa: RUF012

    network: Any  # an Encoder

    def _architecture(self) -> Architecture:
        whole = super()._architecture()
        return replace(whole, head=HeadOptions("none", pooler=whole.head.pooler))

    def _adopt(self, network: Any) -> None:
        for layer in network.layers:
            layer.__class__ = _layer()
        # Its modules are registered here under the same names; as a module itself it would add a
        # prefix to them in saved files.
        self.__dict__["network"] = network
        self._modules.update(network._modules)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> BaseModelOutput:
        """`last_hidden_state` (B, n, hidden); where they are asked for, `hidden_states`, and
        `attentions` (B, heads, n, n) of the heads that have scores.

        Args:
            inputs_embeds: (B, n, size.embedding) in place of rows of the word table.

        Raises:
            RelposError: not one of `input_ids` and `inputs_embeds`; `attention_mask` is not (B, n);
                or no head has scores.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise RelposError("You must specify exactly one of input_ids or inputs_embeds")
        if attention_mask is not None and attention_mask.dim() != 2:
            raise RelposError(
                f"attention_mask has {attention_mask.dim()} axes; (batch, n) is "
                f"expected, 1 at real tokens"
            )
        attentions = _or(output_attentions, self.config.output_attentions)
        maps: list[Tensor] | None = [] if attentions else None
        states = self.network(
            input_ids if inputs_embeds is None else inputs_embeds,
            attention_mask,
            token_type_ids,
            hidden_states=True,
            maps=maps,
        )
        if maps == []:
            raise RelposError("output_attentions: no head of this network has scores")
        outputs = BaseModelOutput(last_hidden_state=states[-1])
        if _or(output_hidden_states, self.config.output_hidden_states):
            outputs.hidden_states = tuple(states)
        if maps:
            outputs.attentions = tuple(maps)
        return outputs


def _or(asked: bool | None, default: bool) -> bool:
    return default if asked is None else asked

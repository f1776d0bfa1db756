"""Randomly initialised models of `transformers`, small, and what a comparison with ours needs. For
tests only."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

transformers = pytest.importorskip("transformers", reason="needs relpos[pretrained]")

VOCABULARY, LENGTH = 40, 11
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}

DEBERTA: dict[str, Any] = {
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
}
"""Versions 2 and 3 as published, but for the number of buckets."""


def host(kind: str, **config: Any) -> Any:
    """A model of the class `kind`, e.g. `BertForMaskedLM`, in float64, with every parameter drawn
    anew from N(0, 0.3²)."""
    model_class = getattr(transformers, kind)
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**SIZES | config)).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # RoFormer's waves: `transformers` rounds them to float32, which is 1e-8 of the result
            if "embed_positions" in name:
                parameter.copy_(waves(*parameter.shape))
            else:
                parameter.normal_(0, 0.3)
    return model


def all_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some models compute angles and scales in float32 whatever their weights are; float64 is put
    there."""
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(Tensor, "float", Tensor.double)


def waves(positions: int, width: int) -> Tensor:
    """(positions, width) in float64: the sines of all angles, then the cosines."""
    angles = torch.arange(positions).double()[:, None] * 10000 ** (
        -torch.arange(0, width, 2).double() / width
    )
    return torch.cat((angles.sin(), angles.cos()), 1)


def saved(model: Any, folder: Path) -> Path:
    """The folder that `save_pretrained` writes."""
    model.save_pretrained(folder)
    return folder


def saved_gradients(model: Any, folder: Path) -> Path:
    """The same folder with the gradient of each weight in its place; 0 where nothing depends on
    it."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(
                    torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                )
    return saved(model, folder)


def batch(config: Any, padded: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """ids, mask and token types (3, n), with the padding that the configuration names."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, VOCABULARY, (3, LENGTH), generator=generator)
    lengths = torch.tensor([LENGTH, 7, 4]) if padded else torch.full((3,), LENGTH)
    mask = torch.arange(LENGTH) < lengths[:, None]
    types = torch.randint(
        getattr(config, "type_vocab_size", 1) or 1, (3, LENGTH), generator=generator
    )
    return ids.masked_fill(~mask, config.pad_token_id), mask, types


def outputs(model: Any, ids: Tensor, mask: Tensor, types: Tensor) -> Any:
    """The outputs of a model of `transformers`; some have no token types."""
    kinds = {"token_type_ids": types} if hasattr(model.config, "type_vocab_size") else {}
    return model(ids, mask, **kinds, output_hidden_states=True)


def hidden_states(model: nn.Module, ids: Tensor, mask: Tensor, types: Tensor) -> list[Tensor]:
    """The embeddings and the output of every layer of our network."""
    states: list[Tensor] = getattr(model, "encoder", model)(ids, mask, types, hidden_states=True)
    return states

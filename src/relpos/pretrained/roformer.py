"""RoFormer (Su et al. 2021): rotary positions, neighbouring channels paired as ours are."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from relpos.pretrained.bert import EMBEDDINGS, MASKED_LM
from relpos.pretrained.bert import FAMILY as BERT
from relpos.pretrained.electra import FAMILY as ELECTRA
from relpos.pretrained.family import SIZE, Config, ConfigKey

_SIZE = SIZE | {
    "embedding": ConfigKey("embedding_size", 768),
    "max_positions": ConfigKey("max_position_embeddings", 1536),
}


def waves(config: Config) -> Float[Tensor, "positions head_dim"]:
    """The sines of all angles, then the cosines, which `transformers` keeps among the weights."""
    width = _SIZE["hidden"].of(config) // _SIZE["heads"].of(config)
    wave = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(_SIZE["max_positions"].of(config), dtype=torch.float64)[:, None] * wave
    return torch.cat((angles.sin(), angles.cos()), 1)


FAMILY = replace(
    BERT,
    model_type="roformer",
    prefix="roformer.",
    name="RoFormer",
    vocabulary=50000,
    size=_SIZE,
    position={
        "_target_": "relpos.model.position.Rope",
        "base": 10000.0,
        "values": ConfigKey("rotary_value", False),
        "fraction": 1.0,
    },
    encoder=EMBEDDINGS,
    widen=ELECTRA.widen,
    heads=MASKED_LM,
    # No parameter of ours is made of the sines; `computed` compares them.
    unread=(*BERT.unread, r".*embed_positions\.weight"),
    computed={"encoder.embed_positions.weight": waves},
)

"""ModernBERT (Warner et al. 2024), mmBERT (Marone et al. 2025), Ettin: every third layer is global,
the others see a window.

Dropout, of which published networks have none, stands elsewhere in `transformers`: `mlp_dropout`,
our `dropout`, applies to the inner vectors of the feed-forward network, and the output of attention
has `attention_dropout`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relpos.errors import RelposError
from relpos.pretrained.family import (
    SIZE,
    Config,
    ConfigKey,
    Family,
    activation,
    defaults,
    masked_lm,
    weights,
)

_EVERY = 3
_THETAS = {
    "full_attention": ConfigKey("global_rope_theta", 160000.0),
    "sliding_attention": ConfigKey("local_rope_theta", 10000.0),
}


def _rope(kind: str) -> Config:
    return {
        "_target_": "relpos.model.position.Rope",
        "base": _THETAS[kind],
        "values": False,
        "fraction": 1.0,
    }


_REACH = ConfigKey("local_attention", 128, lambda width: width // 2, lambda reach: 2 * reach)
_WINDOW = {"_target_": "relpos.model.position.Window", "reach": _REACH}
_LOCAL = {"_target_": "relpos.model.position.Merge", "parts": [_rope("sliding_attention"), _WINDOW]}


def older(config: Config) -> Config:
    """The keys of `transformers` 5, `layer_types` and `rope_parameters`, as those of version 4,
    which version 5 still reads.

    Raises:
        RelposError: other layers than every third are global, or angles are scaled.
    """
    types = config.get("layer_types") or []
    # False and True as places in `_THETAS`, which names full attention first.
    if not isinstance(types, list) or types != [
        list(_THETAS)[layer % _EVERY > 0] for layer in range(len(types))
    ]:
        raise RelposError(
            f"layer_types={types}: only full_attention in every third layer is supported"
        )
    thetas = {key.name: _theta(config, kind, key) for kind, key in _THETAS.items()}
    return {**config, **thetas}


def _theta(config: Config, kind: str, key: ConfigKey) -> object:
    parameters = config.get("rope_parameters") or {}
    rotation = isinstance(parameters, Mapping) and (parameters.get(kind) or {})
    if not isinstance(rotation, Mapping) or rotation.get("rope_type", "default") != "default":
        raise RelposError(f"rope_parameters={parameters}: only the rope_type default is supported")
    return rotation.get("rope_theta", key.of(config))


_NORM, *_LAYER = weights(
    """
    attention_norm.weight     attn_norm.weight
    attention.project.weight  attn.Wqkv.weight
    attention.output.weight   attn.Wo.weight
    ffn_norm.weight           mlp_norm.weight
    widen.weight              mlp.Wi.weight
    narrow.weight             mlp.Wo.weight
    """,
    ours="layers.{n}.",
    theirs="layers.{n}.",
)

FAMILY = Family(
    model_type="modernbert",
    base="model",
    name="ModernBert",
    vocabulary=50368,
    size=SIZE
    | defaults(layers=22, ffn=1152, max_positions=8192)
    | {
        "dropout": ConfigKey("mlp_dropout", 0.0),
        "attention_dropout": ConfigKey("attention_dropout", 0.0),
        "activation": ConfigKey("hidden_activation", "gelu", activation),
        "norm_eps": ConfigKey("norm_eps", 1e-5),
        "token_types": 0,
        "norm_first": True,
        "glu": True,
        "bias": False,
    },
    position={
        "_target_": "relpos.model.position.Layers",
        "layers": [_rope("full_attention"), _LOCAL, _LOCAL],
        "cycle": True,
    },
    constants={
        **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), False),
        "decoder_bias": True,
        "classifier_activation": "gelu",
        "global_attn_every_n_layers": _EVERY,
        "rope_scaling": None,
    },
    encoder=weights(
        """
        embedding.words.weight  embeddings.tok_embeddings.weight
        embedding.norm.weight   embeddings.norm.weight
        norm.weight             final_norm.weight
        """
    ),
    layer=(
        # The first layer reads what the norm of the embeddings has just normed, and has none of its
        # own.
        replace(_NORM, since=1),
        replace(_LAYER[0], halves=True),
        *_LAYER[1:],
    ),
    heads=masked_lm(
        weights("narrow.weight dense.weight\nnorm.weight norm.weight", "head.", "head."),
        "decoder.bias",
        "decoder.weight",
        activation="gelu",  # whatever the layers have
    ),
    unread=r"decoder\.weight",
    normalised=older,
)

"""DeBERTa, version 3 (He et al. 2023), mDeBERTa, and version 2 (He et al. 2021) without its
convolution: shared maps, log buckets, a normed table, no absolute positions.

Masked words are predicted as in `transformers`, without the enhanced mask decoder, which reads
absolute positions. The head of version 3 that finds replaced tokens is not read: it has a norm that
ours does not have.
"""

from __future__ import annotations

from relpos.errors import RelposError
from relpos.pretrained.bert import AFTER_ATTENTION, DISTILBERT, MASKED_LM
from relpos.pretrained.family import (
    SIZE,
    Config,
    ConfigKey,
    Family,
    defaults,
    masked_lm,
    weights,
)

_SIZE = SIZE | defaults(layers=24, hidden=1536, embedding=1536, heads=24, ffn=6144)
_CONSTANTS = {
    "relative_attention": True,
    "position_biased_input": False,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "pos_att_type": ["c2p", "p2c"],
    "layer_norm_eps": 1e-7,
    "type_vocab_size": 0,
    "conv_kernel_size": 0,
}
# What a missing key means, where this is not the value above.
_MISSING = {
    "relative_attention": False,
    "position_biased_input": True,
    "share_att_key": False,
    "norm_rel_ebd": "none",
    "pos_att_type": [],
    "max_relative_positions": -1,
}


def _buckets(number: int) -> int:
    if number in (-1, 0):
        raise RelposError("a table without log buckets is not supported")
    return number


def stated(config: Config) -> Config:
    """The configuration with every key that decides which network it is, `pos_att_type` as a sorted
    list, and the distances as a number.

    Raises:
        RelposError: the embeddings are narrower than the layers: they are normed behind the map
            between the two, ours before it.
    """
    entries = _MISSING | {name: value for name, value in config.items() if value is not None}
    hidden = _SIZE["hidden"].of(entries)
    kinds = entries["pos_att_type"]
    if entries.get("embedding_size", hidden) != hidden:
        raise RelposError(
            f"embedding_size={entries['embedding_size']}: only that of hidden_size={hidden} is "
            f"supported for deberta-v2"
        )
    if isinstance(kinds, str):
        kinds = [kind.strip() for kind in kinds.lower().split("|")]
    # As in transformers, which takes the longest text where the number is below 1.
    if entries["max_relative_positions"] in (-1, 0):
        entries["max_relative_positions"] = _SIZE["max_positions"].of(entries)
    return entries | {"pos_att_type": sorted(map(str, kinds)) if isinstance(kinds, list) else kinds}


FAMILY = Family(
    model_type="deberta-v2",
    base="deberta",
    name="DebertaV2",
    vocabulary=128100,
    size=_SIZE | {"norm_eps": _CONSTANTS["layer_norm_eps"], "token_types": 0},
    position={
        "_target_": "relpos.model.position.Deberta",
        "buckets": ConfigKey("position_buckets", -1, _buckets),
        "max_distance": ConfigKey("max_relative_positions"),
        "share": True,
    },
    constants=_CONSTANTS,
    encoder=(
        # Without the last, a table of absolute positions.
        *DISTILBERT.encoder[:-1],
        *weights(
            """
            position.table  encoder.rel_embeddings.weight
            position.norm   encoder.LayerNorm
            """
        ),
    ),
    layer=(
        *weights(
            "attention.project query_proj key_proj value_proj",
            ours="layers.{n}.",
            theirs="encoder.layer.{n}.attention.self.",
        ),
        *AFTER_ATTENTION,
    ),
    heads=(
        *MASKED_LM,
        # The names of the authors' own files, which transformers has with legacy=false; their head
        # predicts with the word table.
        masked_lm(
            weights("head.narrow dense\nhead.norm LayerNorm", theirs="lm_predictions.lm_head."),
            "lm_predictions.lm_head.bias",
        )[0],
    ),
    # A tied decoder, the head that finds replaced tokens, and what the enhanced mask decoder reads.
    unread=(
        r"cls\.predictions\.decoder\.weight|"
        r"mask_predictions\..*|"
        r".*\.position_ids|"
        r".*\.position_embeddings\.weight"
    ),
    normalised=stated,
)

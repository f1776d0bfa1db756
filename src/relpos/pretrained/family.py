"""How a family of published checkpoints is described: one mapping of its configuration and one of
its weights, read both ways.

A family says which key of `config.json` is which value of our configuration (`size`, `position`,
`conv`, `vocabulary`; in this package called settings), and which of its weights is which of our
parameters. `mapping.py` reads these descriptions in either direction. What a description cannot
say, a family does itself: `Family.normalised`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from relpos.errors import RelposError
from relpos.model.architecture import Activation, HeadOptions

Config = Mapping[str, Any]
"""The content of a `config.json`; or our configuration of a network, its settings."""


def same(value: Any) -> Any:
    """The value itself."""
    return value


@dataclass(frozen=True)
class ConfigKey:
    """A key of `config.json`.

    Args:
        name: the key.
        default: its value in a file without the key, or with null for it.
        read: its value → ours.
        write: our value → its.
    """

    name: str
    default: object = None
    read: Callable[[Any], Any] = same
    write: Callable[[Any], Any] = same

    def of(self, config: Config) -> Any:
        """Its value in a file."""
        value = config.get(self.name)
        if value is None:
            return self.default
        return value


@dataclass(frozen=True)
class Weight:
    """One of our parameters and the weights of a checkpoint that make it. `{n}` in a name is the
    number of the layer.

    Args:
        ours: name of the parameter.
        theirs: name of the weight; several, with spaces between, are concatenated along the rows,
            in equal parts.
        also: another name of the same weight; read where `theirs` is missing, and otherwise
            ignored.
        reserved: rows at the beginning of theirs that ours does not have.
        single: axis of length 1 in theirs that ours does not have.
        transposed: a matrix whose rows are our columns.
        halves: ours are the rows of all queries, keys and values. A rotation turns channels m and m
            + head_dim/2 of their heads together, where ours turns neighbours: queries and keys are
            put in our order.
        since: the first layer that has it.
    """

    ours: str
    theirs: str
    also: str = ""
    reserved: int = 0
    single: int | None = None
    transposed: bool = False
    halves: bool = False
    since: int = 0

    @property
    def names(self) -> list[str]:
        """The names of the checkpoint's weights that make the parameter."""
        return self.theirs.split()


def weights(table: str, ours: str = "", theirs: str = "") -> tuple[Weight, ...]:
    """The weights that a table lists: on each line our name, then theirs. The name of a linear map
    or a layer norm stands for its weight and its bias.

    Args:
        ours: the beginning of our names.
        theirs: the beginning of theirs.
    """
    listed = []
    for line in table.strip().splitlines():
        name, *names = line.split()
        kinds = [".weight", ".bias"]
        if names[0].endswith(tuple(kinds)):
            kinds = [""]
        for kind in kinds:
            together = " ".join(f"{theirs}{their}{kind}" for their in names)
            listed.append(Weight(f"{ours}{name}{kind}", together))
    return tuple(listed)


def names_of(weights: Iterable[Weight]) -> set[str]:
    """The names of the checkpoint's weights that make these parameters."""
    return set(chain.from_iterable(weight.names for weight in weights))


@dataclass(frozen=True)
class HeadLayout:
    """A head on the encoder.

    Args:
        name: of the class in `transformers`, behind the family's.
        weights: of the head.
        head: in our configuration, where a classifier has `outputs`, too.
    """

    name: str
    weights: tuple[Weight, ...]
    head: HeadOptions


def masked_lm(
    transform: tuple[Weight, ...],
    bias: str,
    decoder: str = "",
    decoder_bias: str = "",
    activation: Activation | None = None,
) -> tuple[HeadLayout, HeadLayout]:
    """The language-modelling head that predicts with the word table, and the one with a table of
    its own.

    Args:
        transform: weights before the table.
        bias: name of the bias of the words.
        decoder: name of the head's own table, where there is one.
        decoder_bias: name of the bias beside that table. Files have either name or both, by the
            version that wrote them.
        activation: of both; None: that of the layers.
    """
    tied = Weight("head.bias", bias, also=decoder_bias)
    untied = Weight("head.bias", decoder_bias or bias, also=decoder_bias and bias)
    own = *transform, untied, Weight("head.table", decoder)
    return (
        HeadLayout("ForMaskedLM", (*transform, tied), HeadOptions(activation=activation)),
        HeadLayout("ForMaskedLM", own, HeadOptions(tied=False, activation=activation)),
    )


def classifier(pooler: str, output: str = "classifier") -> HeadLayout:
    """The classifier of texts, by the names of its two linear maps."""
    maps = weights(f"pooler {pooler}\nclassifier {output}")
    return HeadLayout("ForSequenceClassification", maps, HeadOptions("classifier"))


ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu_accurate": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Names of activations in `config.json` → ours. Several are ways of computing the same function."""


def activation(name: object) -> str:
    """Our name of an activation.

    Raises:
        RelposError: we have none that computes the same.
    """
    if name not in ACTIVATIONS:
        raise RelposError("gelu, gelu_new, relu or silu is expected")
    return ACTIVATIONS[str(name)]


# The embeddings are as wide as the layers unless a family has a key of their own for them.
HIDDEN = ConfigKey("hidden_size", 768)
SIZE: dict[str, Any] = {
    "layers": ConfigKey("num_hidden_layers", 12),
    "hidden": HIDDEN,
    "embedding": HIDDEN,
    "heads": ConfigKey("num_attention_heads", 12),
    "ffn": ConfigKey("intermediate_size", 3072),
    "max_positions": ConfigKey("max_position_embeddings", 512),
    "dropout": ConfigKey("hidden_dropout_prob", 0.1),
    "attention_dropout": ConfigKey("attention_probs_dropout_prob", 0.1),
    "activation": ConfigKey("hidden_act", "gelu", activation),
    "norm_eps": ConfigKey("layer_norm_eps", 1e-12),
    "token_types": ConfigKey("type_vocab_size", 2),
    "share_layers": False,
    "norm_first": False,
    "norm": "layer",
    "glu": False,
    "bias": True,
    "qk_norm": False,
}
"""The keys that most families have."""


def defaults(**values: object) -> dict[str, ConfigKey]:
    """These keys of `SIZE` with other values in a file without them."""
    return {key: replace(SIZE[key], default=value) for key, value in values.items()}


ABSOLUTE = {"_target_": "relpos.model.position.Absolute"}
NO_CONV = {"_target_": "relpos.model.conv.NoConv"}
# Keys that turn the encoder into another network; not all of them show in the names of the weights.
NO_DECODER = {
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "pruned_heads": {},
}


@dataclass(frozen=True, kw_only=True)
class Family:
    """A kind of checkpoint.

    Args:
        model_type: in `config.json`.
        base: begins the names of the encoder's weights, where there is a head, with a point behind
            it; empty: `model_type` does.
        name: begins the names of its classes in `transformers`.
        vocabulary: its usual size.
        size, position, conv: our configuration, with a `ConfigKey` for every value that
            `config.json` holds.
        constants: keys of `config.json` that must have this value if they are there.
        encoder: weights of the encoder outside its layers, without the prefix.
        layer: weights of a layer.
        heads: the heads that are understood.
        widen: weights of the map from the embedding's width to the hidden one, where the two
            differ.
        pooler: weights of the pooler.
        unread: regular expression of weights that published checkpoints have and none of our
            networks needs; by default it matches none.
        normalised: `config.json` of any version of `transformers` → with the keys that the
            description names.
    """

    model_type: str
    base: str = ""
    name: str
    vocabulary: int
    size: Config = field(default_factory=lambda: SIZE)
    position: Config = field(default_factory=lambda: ABSOLUTE)
    conv: Config = field(default_factory=lambda: NO_CONV)
    constants: Config = field(default_factory=lambda: NO_DECODER)
    encoder: tuple[Weight, ...]
    layer: tuple[Weight, ...]
    heads: tuple[HeadLayout, ...]
    widen: tuple[Weight, ...] = ()
    pooler: tuple[Weight, ...] = ()
    unread: str = "$^"
    normalised: Callable[[Config], Config] = same

    @property
    def prefix(self) -> str:
        """The beginning of the names of the encoder's weights, where there is a head."""
        return f"{self.base or self.model_type}."

    @property
    def settings(self) -> dict[str, object]:
        """The template of our configuration."""
        return {
            "size": self.size,
            "position": self.position,
            "conv": self.conv,
            "vocabulary": ConfigKey("vocab_size", self.vocabulary),
        }

    def architecture(self, head: HeadLayout | None) -> str:
        """The name of a class in `transformers`: the encoder with this head, or alone."""
        return f"{self.name}{head.name if head else 'Model'}"

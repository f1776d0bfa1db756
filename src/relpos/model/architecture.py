"""What a network is but for its weights: sizes, position scheme, convolution, vocabulary, head, as
the `config.yaml` of a model folder has them. `build.py` builds from it; torch is not loaded here.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from relpos.ranges import Count, Node, Positive, Rate, Width, between, check, rules

Activation = Literal["gelu", "gelu_new", "relu", "silu"]
NormKind = Literal["layer", "rms"]
ClassifierKind = Literal["plain", "jiant", "mean", "jiant_mean"]


@dataclass(frozen=True, kw_only=True)
class Size:
    """The keys `size.…`; `layers` counts passes.

    Args:
        norm_first: norms stand before attention and feed-forward network and one behind the last
            layer (Xiong et al. 2020, pre-LN), instead of behind both. The first layer's attention
            has none where it reads the embedding's.
        norm: `layer`, or `rms` (Zhang & Sennrich 2019, Eq. 4): no mean is subtracted and no shift
            added.
        glu: the feed-forward network is W_2 (act(a) ⊙ b), (a, b) = W_1 x, a and b of the width
            `ffn` (Shazeer 2020).
        bias: whether the linear maps of layers, embedding and head, and layer norms, add one. What
            position schemes and convolutions bring keeps its own, and so does the bias of the
            vocabulary.
        qk_norm: a norm over each head's query and key (Henry et al. 2020; with gains, as Dehghani
            et al. 2023 have it), which all heads of a layer share. Position schemes see and turn
            what comes out of it.
        attention: with `causal` token i sees the tokens j ≤ i alone, as in a decoder.

    Raises:
        RelposError: a value is out of its range.
    """

    layers: Annotated[int, between(1, 1_000)]
    hidden: Width
    embedding: Width
    heads: Width
    ffn: Width
    max_positions: Width = 128
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.1
    activation: Activation = "gelu"
    norm_eps: Positive = 1e-12
    token_types: Annotated[int, between(0, 1_000_000)] = 2
    share_layers: bool = False
    attention: Literal["bidirectional", "causal"] = "bidirectional"
    norm_first: bool = False
    norm: NormKind = "layer"
    glu: bool = False
    bias: bool = True
    qk_norm: bool = False

    def __post_init__(self) -> None:
        for name, annotation in rules(Size).items():
            check(name, getattr(self, name), annotation)

    @property
    def causal(self) -> bool:
        """Whether a token sees itself and what stands before it alone."""
        return self.attention == "causal"


@dataclass(frozen=True)
class HeadOptions:
    """The head on the encoder; by default that of the networks that are pre-trained here.

    Args:
        kind: `none` for the encoder alone.
        activation, tied: of a masked language model, see `MaskedLM`.
        classifier: kind of a classifier, see `Classifier`.
        pooler: whether the encoder has a pooler.
    """

    kind: Literal["masked_lm", "replaced_tokens", "classifier", "none"] = "masked_lm"
    activation: Activation | None = None
    tied: bool = True
    classifier: ClassifierKind = "plain"
    pooler: bool = False


@dataclass(frozen=True)
class Architecture:
    """A network but for its weights.

    Args:
        position, conv: the class and its arguments.
        outputs: of a classifier; None: the network is none.
    """

    size: Size
    position: Node
    conv: Node
    vocabulary: Width
    head: HeadOptions = HeadOptions()
    outputs: Count | None = None

    @property
    def kind(self) -> str:
        """The kind of the head."""
        return "classifier" if self.outputs else self.head.kind

    @property
    def encoder(self) -> Architecture:
        """The same encoder with the usual head."""
        return Architecture(self.size, self.position, self.conv, self.vocabulary)

    def plain(self) -> dict[str, Any]:
        """The content of a model folder's `config.yaml`, without what is as usual."""
        values = asdict(self)
        usual = asdict(HeadOptions())
        values["head"] = {
            key: value for key, value in values["head"].items() if value != usual[key]
        }
        return {key: value for key, value in values.items() if value not in (None, {})}


def scheme_name(position: Node, conv: Node) -> str:
    """Position scheme and convolution, as the name of a run begins: `rope-depthwise`."""
    names = class_of(position), class_of(conv)
    return names[0] if names[1] == "none" else "-".join(names)


def class_of(node: Node | None) -> str:
    """The class that a node names, in snake case, or `none`; of a merge, the names of its parts:
    `absolute+tisa`; of a list by layers, those of its schemes: `rope_or_rope+window`."""
    if not node:
        return "none"
    if parts := node.get("parts"):
        return "+".join(map(class_of, parts))
    if layers := node.get("layers"):
        return "_or_".join(dict.fromkeys(map(class_of, layers)))
    name = str(node["_target_"]).rpartition(".")[2]
    if name in ("NoPosition", "NoConv"):
        return "none"
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()

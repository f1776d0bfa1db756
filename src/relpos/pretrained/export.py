"""A network of ours → `config.json` and weights as `transformers` has them, or the reason why it
has no such network."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import Tensor

from relpos.errors import RelposError
from relpos.model.architecture import Architecture
from relpos.pretrained.families import FAMILIES
from relpos.pretrained.family import Config, Family, HeadLayout
from relpos.pretrained.mapping import listed, to_config, write


def to_huggingface(network: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The content of `config.json`, and name → weight.

    `absolute` becomes BERT where the embedding is as wide as the layers, else ELECTRA, or ALBERT
    where layers are shared; `rope` RoFormer; `convbert` ConvBERT; `deberta` DeBERTa-v2; `layers`
    ModernBERT. But for q and k of the last, the weights share the network's memory. A RoFormer's
    pooler, or one beside a head for words, has its published name; transformers ignores it.

    Args:
        network: a `MaskedLM`, a `Classifier`, a `ReplacedTokens` or an `Encoder`.

    Raises:
        RelposError: `transformers` has no such network; names the key and the reason.
    """
    architecture = network.architecture
    family = family_of(architecture)
    config = to_config(family, asdict(architecture))
    head = _head(family, architecture)
    # `tie_word_embeddings` is written even where it is the default, so that the file says it.
    config |= {
        "architectures": [family.architecture(head)],
        "tie_word_embeddings": head is None or head.head.tied,
    }
    if outputs := architecture.outputs:
        config["id2label"] = {str(number): f"LABEL_{number}" for number in range(outputs)}
    return config, _weights(network, family, head, config)


def family_of(architecture: Architecture) -> Family:
    """The family of a network, by its position scheme, its convolution and its size.

    Raises:
        RelposError: there is none.
    """
    size = architecture.size
    position, conv = (
        node["_target_"].rpartition(".")[2] for node in (architecture.position, architecture.conv)
    )
    if size.causal:
        raise RelposError(
            "size.attention=causal: transformers has encoders of these families alone, and no "
            "decoder"
        )
    if conv not in ("NoConv", "ConvBert"):
        raise RelposError(f"conv={conv}: transformers has no encoder with this convolution")
    name = BY_CLASSES.get((position, conv))
    if name == "bert" and size.embedding != size.hidden:
        name = "albert" if size.share_layers else "electra"
    elif size.share_layers:
        alone = "in transformers ALBERT alone shares its layers, and widens embeddings"
        raise RelposError(f"share_layers=true, position={position}, conv={conv}: {alone}")
    if name is None:
        raise RelposError(
            f"position={position}, conv={conv}: transformers has no encoder with these two"
        )
    return FAMILIES[name]


BY_CLASSES = {
    ("Absolute", "NoConv"): "bert",
    ("Absolute", "ConvBert"): "convbert",
    ("Rope", "NoConv"): "roformer",
    ("Layers", "NoConv"): "modernbert",
    ("Deberta", "NoConv"): "deberta-v2",
}
"""Position scheme and convolution → `model_type`."""


def _head(family: Family, architecture: Architecture) -> HeadLayout | None:
    """The family's head that computes the same as the network's; None for an encoder alone."""
    own = architecture.head
    kind = architecture.kind
    if kind == "none":
        return None
    if own.classifier != "plain":
        raise RelposError(f"head={own.classifier}: transformers has no such classifier")
    layouts = [layout for layout in family.heads if layout.head.kind == kind]
    if not layouts:
        raise RelposError(
            f"{family.architecture(None)} has no head of the kind {kind} that computes what ours "
            "does"
        )
    if kind != "masked_lm":
        return layouts[0]
    layout = next(layout for layout in layouts if layout.head.tied == own.tied)
    of_layers = architecture.size.activation
    needed = layout.head.activation or of_layers
    activation = own.activation or of_layers
    if activation != needed:
        raise RelposError(
            f"{family.architecture(layout)} has {needed} in its head, this network {activation}"
        )
    return layout


def _weights(
    network: Any,
    family: Family,
    head: HeadLayout | None,
    config: Config,
) -> dict[str, Tensor]:
    parameters = {name: value.detach() for name, value in network.named_parameters()}
    architecture = network.architecture
    size = architecture.size
    # With a point in front, because names of an encoder alone begin with `pooler`.
    pooler = architecture.kind != "classifier" and any(
        ".pooler." in f".{name}" for name in parameters
    )
    prefix = ""
    if head:
        prefix = family.prefix
    # Popped one by one: what is left at the end is what the family lacks.
    weights: dict[str, Tensor] = {}
    for weight in listed(family, head, size, pooler, prefix):
        if weight.ours not in parameters:  # token types, of which a network may have none
            raise RelposError(f"{family.model_type} has {weight.ours}, this network has none")
        parameter = parameters.pop(weight.ours)
        weights.update(write(weight, parameter, size.heads))
        # The bias of the words: transformers has it twice where the table of the words is another,
        # and computes with the first.
        if weight.also and not config["tie_word_embeddings"]:
            weights[weight.also] = parameter.clone()
    if parameters:  # a pooler, which some families have none of
        raise RelposError(f"{family.model_type} has no {', '.join(sorted(parameters))}")
    return weights

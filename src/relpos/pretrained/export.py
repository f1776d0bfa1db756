"""A network of ours → `config.json` and weights as `transformers` has them, or the reason why it
has no such network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.pretrained.families import FAMILIES
from relpos.pretrained.family import Family, HeadLayout
from relpos.pretrained.mapping import listed, to_config, write


def to_huggingface(
    network: nn.Module, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The content of `config.json`, and name → weight.

    `absolute` becomes BERT where the embedding is as wide as the layers, else ELECTRA, or ALBERT
    where layers are shared; `rope` RoFormer; `convbert` ConvBERT; `deberta` DeBERTa-v2; `layers`
    ModernBERT. But for q and k of the last, the weights share the network's memory. A RoFormer's
    pooler, or one beside a head for words, has its published name; transformers ignores it.

    Args:
        network: a `MaskedLM`, a `Classifier`, a `ReplacedTokens` or an `Encoder`.
        settings: its configuration as in a model folder's config.yaml: `size`, `position`, `conv`,
            `vocabulary`, `head` or `outputs`.

    Raises:
        RelposError: `transformers` has no such network; names the key and the reason.
    """
    family = family_of(settings)
    config = to_config(family, settings)
    head = _head(family, settings)
    # `tie_word_embeddings` is written even where it is the default, so that the file says it.
    if head is None:
        config |= {"architectures": [family.base], "tie_word_embeddings": True}
    else:
        config |= {
            "architectures": [head.architecture],
            "tie_word_embeddings": head.settings.get("tied", True),
        }
    if "outputs" in settings:
        config["id2label"] = {
            str(number): f"LABEL_{number}" for number in range(settings["outputs"])
        }
        config["label2id"] = {label: int(number) for number, label in config["id2label"].items()}
    return config, _weights(network, family, head, settings, config)


def family_of(settings: Mapping[str, Any]) -> Family:
    """The family of a network, by its position scheme, its convolution and its size.

    Raises:
        RelposError: there is none.
    """
    size = settings["size"]
    position, conv = (settings[key]["_target_"].rpartition(".")[2] for key in ("position", "conv"))
    if size.get("attention") == "causal":
        raise RelposError(
            "size.attention=causal: transformers has encoders of these families "
            "alone, and no decoder"
        )
    shared, widens = bool(size.get("share_layers", False)), size["embedding"] != size["hidden"]
    if (position, conv) == ("Absolute", "NoConv") and (widens or not shared):
        if not widens:
            return FAMILIES["bert"]
        if shared:
            return FAMILIES["albert"]
        return FAMILIES["electra"]
    if conv not in ("NoConv", "ConvBert"):
        raise RelposError(f"conv={conv}: transformers has no encoder with this convolution")
    if shared:
        alone = "in transformers ALBERT alone shares its layers, and widens embeddings"
        raise RelposError(f"share_layers=true, position={position}, conv={conv}: {alone}")
    if (position, conv) == ("Absolute", "ConvBert"):
        return FAMILIES["convbert"]
    by_position = {"Rope": "roformer", "Layers": "modernbert", "Deberta": "deberta-v2"}
    if conv != "NoConv" or position not in by_position:
        raise RelposError(
            f"position={position}, conv={conv}: transformers has no encoder with these two"
        )
    return FAMILIES[by_position[position]]


def _head(family: Family, settings: Mapping[str, Any]) -> HeadLayout | None:
    """The family's head that computes the same as the network's; None for an encoder alone."""
    described = dict(settings.get("head") or {})
    kind = described.get("kind", "masked_lm")
    if "outputs" in settings:
        kind = "classifier"
    if kind == "none":
        return None
    if (classifier := described.get("classifier", "plain")) != "plain":
        raise RelposError(f"head={classifier}: transformers has no such classifier")
    heads = [head for head in family.heads if head.settings.get("kind", "masked_lm") == kind]
    if not heads:
        raise RelposError(
            f"{family.base} has no head of the kind {kind} that computes what ours does"
        )
    if kind != "masked_lm":
        return heads[0]
    activation = described.get("activation") or settings["size"].get("activation", "gelu")
    tied = described.get("tied", True)
    head = next(head for head in heads if head.settings.get("tied", True) == tied)
    needed = head.settings.get("activation", settings["size"].get("activation", "gelu"))
    if activation != needed:
        raise RelposError(
            f"{head.architecture} has {needed} in its head, this network {activation}"
        )
    return head


def _weights(
    network: nn.Module,
    family: Family,
    head: HeadLayout | None,
    settings: Mapping[str, Any],
    config: Mapping[str, Any],
) -> dict[str, Tensor]:
    parameters = {name: value.detach() for name, value in network.named_parameters()}
    size = settings["size"]
    # With a point in front, because names of an encoder alone begin with `pooler`.
    pooler = "outputs" not in settings and any(".pooler." in f".{name}" for name in parameters)
    prefix = ""
    if head:
        prefix = family.prefix
    # Popped one by one: what is left at the end is what the family lacks.
    weights: dict[str, Tensor] = {}
    for weight in listed(family, head, size, pooler, prefix):
        if weight.ours not in parameters:  # token types, of which a network may have none
            raise RelposError(f"{family.model_type} has {weight.ours}, this network has none")
        parameter = parameters.pop(weight.ours)
        weights.update(write(weight, parameter, size["heads"]))
        # The bias of the words: transformers has it twice where the table of the words is another,
        # and computes with the first.
        weights.update(
            {name: parameter.clone() for name in weight.also if not config["tie_word_embeddings"]}
        )
    if parameters:  # a pooler, which some families have none of
        raise RelposError(f"{family.model_type} has no {', '.join(sorted(parameters))}")
    # In float64, so that whoever loads the network in another number format than it is stored in
    # has the sines of that format.
    return weights | {prefix + name: compute(config) for name, compute in family.computed.items()}

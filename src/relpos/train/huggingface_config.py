"""The configuration of folders whose `model_type` is relpos."""

from __future__ import annotations

from transformers import PretrainedConfig


def _size_key(key: str) -> property:
    """A key of `size` under the name that it has in transformers."""

    def read(self: RelposConfig) -> object:
        return self.size.get(key)

    def write(self: RelposConfig, value: object) -> None:
        self.size = self.size | {key: value}

    return property(read, write, doc=f"`size.{key}`")


class RelposConfig(PretrainedConfig):
    """The configuration that builds a network, as in the `config.yaml` of a model folder.

    Args:
        size, position, conv: nodes of the configuration, with all their keys.
        vocabulary: number of ids.
        head: describes the head where it is not our masked language model's.
    """

    model_type = "relpos"
    attribute_map = {"vocab_size": "vocabulary"}  # noqa: RUF012

    hidden_size = _size_key("hidden")
    num_hidden_layers = _size_key("layers")
    num_attention_heads = _size_key("heads")
    intermediate_size = _size_key("ffn")
    max_position_embeddings = _size_key("max_positions")

    def __init__(
        self,
        size: dict[str, object] | None = None,
        position: dict[str, object] | None = None,
        conv: dict[str, object] | None = None,
        vocabulary: int = 0,
        head: dict[str, object] | None = None,
        tie_word_embeddings: bool | None = None,
        **others: object,
    ) -> None:
        # Not in `others`, where a folder may say that nothing is tied; `head` tells.
        self.size, self.head, self.vocabulary = dict(size or {}), head, vocabulary
        self.position, self.conv = position, conv
        super().__init__(**others)

    @property
    def tie_word_embeddings(self) -> bool:
        """Whether the logits are products with the word table; false: with a table of the head's
        own."""
        return bool((self.head or {}).get("tied", True))

    @tie_word_embeddings.setter
    def tie_word_embeddings(self, value: bool) -> None:
        if value != self.tie_word_embeddings:
            self.head = (self.head or {}) | {"tied": value}

    def settings(self) -> dict[str, object]:
        """The configuration of the network as a dictionary, without the keys that are not set."""
        names = ("size", "position", "conv", "vocabulary", "head")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

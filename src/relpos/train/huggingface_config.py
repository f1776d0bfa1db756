"""`AutoConfig` opens folders whose `model_type` is relpos. Imported when `transformers` is, see `relpos/__init__.py`."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig, PretrainedConfig


class RelposConfig(PretrainedConfig):
    """The words that build a network, as in the `config.yaml` of a model folder.

    Args:
        size, position, conv: nodes of the configuration, with all their keys.
        vocabulary: number of ids.
        head: what stands on the encoder, where it is not a masked language model.
        outputs: of a classifier.
    """

    model_type = "relpos"
    attribute_map = {"vocab_size": "vocabulary"}  # noqa: RUF012

    def __init__(
        self,
        size: dict[str, Any] | None = None,
        position: dict[str, Any] | None = None,
        conv: dict[str, Any] | None = None,
        vocabulary: int = 0,
        head: dict[str, Any] | None = None,
        outputs: int | None = None,
        **others: Any,
    ) -> None:
        self.size, self.position, self.conv, self.vocabulary = size, position, conv, vocabulary
        self.head, self.outputs = head, outputs
        super().__init__(**others)

    @property
    def hidden_size(self) -> int:
        """Width of the encoder's output."""
        return int((self.size or {})["hidden"])

    def words(self) -> dict[str, Any]:
        """The words, without what is not said."""
        names = ("size", "position", "conv", "vocabulary", "head")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


AutoConfig.register("relpos", RelposConfig, exist_ok=True)

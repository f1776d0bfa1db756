"""The configuration of folders whose `model_type` is relpos."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig


class RelposConfig(PretrainedConfig):
    """The configuration that builds a network, as in the `config.yaml` of a model folder.

    Args:
        size, position, conv: nodes of the configuration, with all their keys.
        vocabulary: number of ids.
        head: describes the head where it is not our masked language model's.
        outputs: number of a classifier's outputs.
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

    def settings(self) -> dict[str, Any]:
        """The configuration as a dictionary, without the keys that are not set."""
        names = ("size", "position", "conv", "vocabulary", "head")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

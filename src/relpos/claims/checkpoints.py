"""Published checkpoints, in whose weights the claims about trained position embeddings are looked up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from relpos.claims.scales import Scale
from relpos.errors import RelposError

LENGTH = 128
"""Positions of the profiles of heads."""


@dataclass
class OfCheckpoint(Scale):
    """The scale of one published network. Nothing here knows how it was trained."""

    @property
    def label(self) -> str:
        """`roberta-base (12×768)`"""
        size = self.meaning["size"]
        return f"{self.meaning['name']} ({size['layers']}×{size['hidden']})"

    @property
    def can_go_on(self) -> bool:
        return False


def scales_of(checkpoints: Iterable[str]) -> list[Scale]:
    """A scale for each, the smallest network first.

    Args:
        checkpoints: folders, or ids of the hub.

    Raises:
        RelposError: one cannot be read, or has no table of position embeddings.
    """
    from relpos.pretrained.checkpoint import Checkpoint
    from relpos.pretrained.files import name_of
    from relpos.pretrained.hub import located

    scales: list[Scale] = []
    for checkpoint in checkpoints:
        folder = located(checkpoint)
        read = Checkpoint(folder)
        scheme = str(read.settings["position"]["_target_"]).rpartition(".")[2]
        if scheme != "Absolute":
            raise RelposError(f"network={checkpoint}: it has no table of position embeddings but {scheme}")
        meaning = {"name": name_of(folder), "family": read.family.model_type, "size": read.settings["size"], "length": LENGTH}
        scales.append(OfCheckpoint(meaning, "", {"absolute": {0: folder}}))
    return sorted(scales, key=lambda scale: scale.magnitude)

"""Published checkpoints, in whose weights the claims about trained position embeddings are looked up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, Finding
from relpos.claims.scales import Scale, Scales
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


@dataclass(frozen=True)
class NewerIsMore:
    """R² of P of every published network of the newer families is above that of every one of the older; fails otherwise.

    R² depends on the shape of a table, so that only tables of one shape are compared.

    Args:
        newer, older: `model_type` of families.
    """

    newer: Sequence[str]
    older: Sequence[str]

    @property
    def says(self) -> str:
        newer, older = (" and ".join(families) for families in (self.newer, self.older))
        return f"R² of P of each {newer} is above that of each {older} with a table of the same shape"

    @property
    def rows(self) -> tuple[str, ...]:
        """None: no pre-training of ours is of another family."""
        return ()

    def findings(self, scales: Scales) -> list[Finding]:
        """One over all published networks."""
        from relpos.claims.toeplitz import products, r2, table_of

        tables = {scale.label: table_of(scale.folders["absolute"][0]) for scale in scales.published}
        families = {scale.label: scale.meaning["family"] for scale in scales.published}
        values = {label: r2(products(table)) for label, table in tables.items()}
        newer, older = ([label for label, family in families.items() if family in known] for known in (self.newer, self.older))
        pairs = [(new, old) for new, old in product(newer, older) if tables[new].shape == tables[old].shape]
        if not pairs:
            needs = f"needs published networks of both kinds, {'/'.join(self.newer)} and {'/'.join(self.older)}: network=[…]"
            return [Finding(NOT_RUN, needs, "—")]
        said = ", ".join(f"{label} {values[label]:.2f}" for label in dict.fromkeys(label for pair in pairs for label in pair))
        verdict = HOLDS if all(values[new] > values[old] for new, old in pairs) else FAILS
        return [Finding(verdict, f"R² of P: {said}", "published networks")]

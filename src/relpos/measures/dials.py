"""On how much of what a network is measured."""

from __future__ import annotations

from dataclasses import dataclass

from relpos.data.pairs import AutoPairs, PairSource
from relpos.errors import RelposError


class NothingToMeasure(RelposError):
    """There is no text for a measure, or there are no pairs."""


@dataclass(frozen=True)
class Dials:
    """On how much is measured.

    Args:
        examples: held-out examples of the shuffle gap and the mirror gap, at most.
        form: of the pseudo-log-likelihood, `within_word` or `plain`.
        pairs: the same minimal pairs for all networks, or for each those that suit it.
    """

    examples: int = 1_000
    form: str = "within_word"
    pairs: PairSource | AutoPairs | None = None

    def pairs_for(self, toy: bool) -> PairSource:
        """The pairs for a network.

        Args:
            toy: whether it was trained on the embedded language.

        Raises:
            NothingToMeasure: there are none.
        """
        # Pairs of English say nothing of a network that knows only the embedded language, nor the other way round.
        source = self.pairs.suited(toy) if isinstance(self.pairs, AutoPairs) else self.pairs
        if source is None:
            raise NothingToMeasure("there are no pairs for this network; name some, as in pairs=zorro or pairs=FILE")
        return source

"""What a network loses, and how much order it uses, when more or fewer of the tokens are masked.

What order is worth depends on how much of the text is left to read. The gaps at the rate of the training alone do not show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from relpos.analysis.shuffle_gap import Gaps, gaps
from relpos.data.examples import Examples
from relpos.data.objective import Masked
from relpos.data.shuffle import mirrored, permuted
from relpos.data.words import Words
from relpos.model.heads import MaskedLM

SHUFFLE, MIRROR = "shuffle", "mirror"


def masking_rates(
    model: MaskedLM,
    examples: Examples,
    words: Words,
    rates: Iterable[int],
    advance: Callable[[int], object] = lambda _: None,
) -> dict[int, Gaps]:
    """Per cent of the tokens that are chosen → loss, shuffle gap (all words of a sentence) and mirror gap.

    A token that is chosen at one rate is chosen at every higher one, and what stands in its place is the same.

    Args:
        model, examples, words, advance: as of `relpos.analysis.shuffle_gap.shuffle_gap`, with three passes for each rate.
        rates: per cents of the tokens.
    """
    return {
        rate: gaps(
            model,
            examples,
            {SHUFFLE: lambda batch, numbers: permuted(batch, numbers, words, None), MIRROR: lambda batch, _: mirrored(batch)},
            advance,
            Masked(rate / 100, rate / 100),
        )
        for rate in rates
    }

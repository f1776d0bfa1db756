"""`relpos fill`: what a network puts in the place of `[MASK]`."""

from __future__ import annotations

from relpos import FillMask
from relpos.analysis.likelihood import Guess
from relpos.progress import aligned
from relpos.ranges import Count, Names


def fill(text: Names, network: str, top: Count) -> str:
    """The most probable pieces for each masked token of each text, as a table.

    Raises:
        RelposError: `network` names no masked language model; or a text has no `[MASK]`, or is too long.
    """
    filler = FillMask(network)
    return "\n\n".join(_shown(each, filler(each, top)) for each in text)


def _shown(text: str, masks: list[list[Guess]]) -> str:
    blocks = [text]
    for number, guesses in enumerate(masks, 1):
        head = [] if len(masks) == 1 else [f"masked token {number}"]
        lines = [[f"{guess.probability:.4f}", guess.piece, guess.text] for guess in guesses]
        blocks.append("\n".join([*head, aligned(lines)]))
    return "\n".join(blocks)

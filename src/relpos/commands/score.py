"""`relpos score`: the pseudo-log-likelihood of a text, token by token."""

from __future__ import annotations

from typing import Literal

from relpos import Score
from relpos.analysis.likelihood import Scored
from relpos.errors import plural
from relpos.progress import aligned
from relpos.ranges import Names

BAR = 40
"""Characters of the longest bar; the less probable a token, the longer its bar."""
LOWEST = -10.0
"""Log-probability in nats at which a bar has its full length."""


def score(text: Names, network: str, form: Literal["within_word", "plain"]) -> str:
    """The log-probability of each token of each text given the others, and their sum, as a table.

    Raises:
        RelposError: `network` names no masked language model, or a text has no tokens, or is too long.
    """
    scorer = Score(network, form)
    return "\n\n".join(_shown(each, scorer(each)) for each in text)


def _shown(text: str, scored: Scored) -> str:
    lines = [
        [f"{value:.3f}", piece, "█" * round(BAR * min(1.0, value / LOWEST))]
        for piece, value in zip(scored.pieces, scored.log_probabilities, strict=True)
    ]
    summary = f"{scored.total:.3f} nats, {plural(len(scored.pieces), 'token')}, pseudo-perplexity {scored.perplexity:.2f}"
    return "\n".join([text, aligned(lines), summary])

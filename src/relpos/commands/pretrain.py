"""`relpos pretrain`: masked language modelling of one encoder."""

from __future__ import annotations

from typing import Unpack

from relpos import run
from relpos.config.schema import Pretrain
from relpos.errors import say


def pretrain(**config: Unpack[Pretrain]) -> str:
    """Executes the run unless it is finished, and says its result; returns the path of its
    folder."""
    finished = run(config)
    metrics = finished.metrics
    result = f"held-out loss {metrics['heldout_loss']:.3f}, perplexity {metrics['perplexity']:.2f}"
    if unigram := metrics.get("unigram_perplexity"):
        result += f"; knowing nothing but how often each piece occurs: {unigram:.2f}"
    say(f"relpos: {result}")
    return str(finished.path)

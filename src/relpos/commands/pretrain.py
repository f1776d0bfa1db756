"""`relpos pretrain`: masked language modelling of one encoder."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from relpos import run
from relpos.config.schema import PlannedKeys
from relpos.errors import say
from relpos.ranges import Arguments
from relpos.readers import Plain


class PretrainKeys(PlannedKeys):
    stage: Literal["pretrain"]


CONFIG = Arguments("relpos.stages.pretrain:PretrainConfig", PretrainKeys)


def pretrain(content: Annotated[Plain, CONFIG]) -> str:
    """Executes the run unless it is finished, and says its result; returns the path of its
    folder."""
    finished = run(content)
    # Of several processes the first writes the record, and the others may read it before.
    if (metrics := finished.metrics) and os.getenv("RANK", "0") == "0":
        loss = metrics["heldout_loss"]
        perplexity = metrics["perplexity"]
        result = f"held-out loss {loss:.3f}, perplexity {perplexity:.2f}"
        if unigram := metrics.get("unigram_perplexity"):
            result += f"; knowing nothing but how often each piece occurs: {unigram:.2f}"
        say(f"relpos: {result}")
    return str(finished.path)

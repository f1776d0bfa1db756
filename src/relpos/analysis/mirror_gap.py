"""How much a network uses the direction of the text: its held-out loss on rows read from right to left minus the loss as written.

    s_ij = scale · q_i·k_j + T_{|j−i|}

A scheme whose T depends on the distance alone gives the reversed row the reversed outputs, so its gap is 0, whatever its weights;
so is that of no positions. The shuffle gap separates order from none, this one direction from distance. A causal network has a
direction whatever its positions.
"""

from __future__ import annotations

from collections.abc import Callable

from relpos.analysis.shuffle_gap import Gaps, gaps
from relpos.data.examples import Examples
from relpos.data.shuffle import mirrored
from relpos.model.heads import MaskedLM

KEY = "mirror"


def mirror_gap(model: MaskedLM, examples: Examples, advance: Callable[[int], object] = lambda _: None) -> Gaps:
    """The gap under the key `KEY`; rows are reversed with their [CLS] and [SEP], without which distances would change.

    Args:
        model, examples, advance: as of `relpos.analysis.shuffle_gap.gaps`, with two passes.
    """
    return gaps(model, examples, {KEY: lambda batch, _: mirrored(batch)}, advance)

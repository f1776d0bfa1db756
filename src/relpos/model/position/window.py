"""Attention in a window (Beltagy et al. 2020, "Longformer", Section 3.1)."""

from __future__ import annotations

from typing import Any

from relpos.model.position.base import Scheme, Terms
from relpos.model.shape import Shape
from relpos.ranges import Natural, checked


class Window(Scheme):
    """y_i = Σ_{|j − i| ≤ reach} softmax_j(s_ij) v_j: a token sees `reach` others to each side, the
    same number in all heads. Published widths count both sides: ModernBERT's window of 128 is
    reach=64. Inside the window nothing is added; a stack of L windows passes information over
    L·reach tokens.

    Parameters: 0

    Differs from the paper: no token sees all others, and no window is dilated.

    Example:
        >>> Window(Shape.example(), reach=1).terms(0, None, None, None).reach
        1
    """

    @checked
    def __init__(self, shape: Shape, reach: Natural) -> None:
        super().__init__(shape)
        self.reach = reach

    def terms(self, layer: int, q: Any, k: Any, state: None) -> Terms:
        return Terms(reach=self.reach)

"""No position: the encoder reads a bag of words."""

from __future__ import annotations

from relpos.model.position.base import Scheme


class NoPosition(Scheme):
    """T_ij = 0; nothing is added anywhere. Outputs permute with the tokens.

    Parameters: 0

    Example:
        >>> from relpos.model.shape import Shape
        >>> NoPosition(Shape.example()).terms(0, None, None, None).offset is None
        True
    """

"""Position schemes, one a file. Each fills holes of the equation in `base`; nothing else in the code asks which one it holds."""

from relpos.model.position.absolute import Absolute
from relpos.model.position.base import Position, Scheme, Terms
from relpos.model.position.composite import Composite
from relpos.model.position.composite_key import CompositeKey
from relpos.model.position.dynamic import Dynamic
from relpos.model.position.fixed import Fixed
from relpos.model.position.key import Key
from relpos.model.position.none import NoPosition
from relpos.model.position.sinusoidal import Sinusoidal

__all__ = [
    "Absolute",
    "Composite",
    "CompositeKey",
    "Dynamic",
    "Fixed",
    "Key",
    "NoPosition",
    "Position",
    "Scheme",
    "Sinusoidal",
    "Terms",
]

"""Position schemes, one per file. Each fills holes of the equation in `base`; nothing else in the
code asks which one it holds."""

from relpos.model.position.absolute import Absolute
from relpos.model.position.alibi import Alibi
from relpos.model.position.base import Position, Scheme, Terms
from relpos.model.position.composite import Composite
from relpos.model.position.composite_key import CompositeKey
from relpos.model.position.cope import Cope
from relpos.model.position.deberta import Deberta
from relpos.model.position.dual_triangle import DualTriangle
from relpos.model.position.dynamic import Dynamic
from relpos.model.position.fire import Fire
from relpos.model.position.fixed import Fixed
from relpos.model.position.floater import Floater
from relpos.model.position.fox import Fox
from relpos.model.position.huang4 import Huang4
from relpos.model.position.inkling import Inkling
from relpos.model.position.kerple import Kerple, KerplePower
from relpos.model.position.key import Key
from relpos.model.position.layers import Layers
from relpos.model.position.merge import Merge
from relpos.model.position.none import NoPosition
from relpos.model.position.pope import Pope
from relpos.model.position.randomized import Randomized
from relpos.model.position.rope import Rope
from relpos.model.position.selective_rope import SelectiveRope
from relpos.model.position.sinusoidal import Sinusoidal
from relpos.model.position.swin import Swin
from relpos.model.position.synthesizer_dense import SynthesizerDense
from relpos.model.position.synthesizer_random import SynthesizerRandom
from relpos.model.position.t5 import T5
from relpos.model.position.tisa import Tisa
from relpos.model.position.tupe import Tupe
from relpos.model.position.window import Window
from relpos.model.position.xl import XL

__all__ = [
    "T5",
    "XL",
    "Absolute",
    "Alibi",
    "Composite",
    "CompositeKey",
    "Cope",
    "Deberta",
    "DualTriangle",
    "Dynamic",
    "Fire",
    "Fixed",
    "Floater",
    "Fox",
    "Huang4",
    "Inkling",
    "Kerple",
    "KerplePower",
    "Key",
    "Layers",
    "Merge",
    "NoPosition",
    "Pope",
    "Position",
    "Randomized",
    "Rope",
    "Scheme",
    "SelectiveRope",
    "Sinusoidal",
    "Swin",
    "SynthesizerDense",
    "SynthesizerRandom",
    "Terms",
    "Tisa",
    "Tupe",
    "Window",
]

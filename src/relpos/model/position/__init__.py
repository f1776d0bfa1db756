"""Position schemes, one per file. Each fills holes of the equation in `base`; nothing else in the
code asks which one it holds, and a file is loaded when its class is named."""

from __future__ import annotations

from importlib import import_module

from relpos.model.position.base import Position, Scheme, Terms

__all__ = ["FILES", "Position", "Scheme", "Terms"]
FILES = {
    "Absolute": "absolute",
    "Alibi": "alibi",
    "Composite": "composite",
    "CompositeKey": "composite_key",
    "Cope": "cope",
    "Deberta": "deberta",
    "DualTriangle": "dual_triangle",
    "Dynamic": "dynamic",
    "Fire": "fire",
    "Fixed": "fixed",
    "Floater": "floater",
    "Fox": "fox",
    "Huang4": "huang4",
    "Inkling": "inkling",
    "Kerple": "kerple",
    "KerplePower": "kerple",
    "Key": "key",
    "Layers": "layers",
    "Merge": "merge",
    "NoPosition": "none",
    "Pope": "pope",
    "Randomized": "randomized",
    "Rope": "rope",
    "SelectiveRope": "selective_rope",
    "Sinusoidal": "sinusoidal",
    "Swin": "swin",
    "SynthesizerDense": "synthesizer_dense",
    "SynthesizerRandom": "synthesizer_random",
    "T5": "t5",
    "Tisa": "tisa",
    "Tupe": "tupe",
    "Window": "window",
    "XL": "xl",
}
"""Class → its file."""


def __getattr__(name: str) -> type[Scheme]:
    if name not in FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    scheme: type[Scheme] = getattr(import_module(f"{__name__}.{FILES[name]}"), name)
    return scheme

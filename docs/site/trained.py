"""Trains each scheme on the demo's language and keeps what it then adds to the scores, of which the
site makes pictures.

python docs/site/trained.py       trains those that trained.npz lacks, ten seconds each
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from omegaconf import OmegaConf

import relpos
from relpos.analysis.patterns import Pattern, pattern
from relpos.config.conf import conf_dir

HERE = Path(__file__).resolve().parent
FILE = HERE / "trained.npz"
HEADS = 4
SHORTER = ("steps=300", "batch=16", "evaluations=1", "speed.threads=1")
CURVES = ("mean", "low", "high")
NOT_SEEN, MOST = -128, 127
"""Matrices are kept in so many steps to either side of 0."""


def main() -> int:
    demo = OmegaConf.load(HERE.parents[1] / "experiments" / "demo.yaml")
    held = _held()
    for option in sorted((conf_dir() / "position").glob("*.yaml")):
        text = option.read_text(encoding="utf-8")
        if f"{option.stem}.what" in held or "???" in text:  # to be completed by the user
            continue
        layered = "\nlayers:" in text
        overrides = [
            *demo.base,
            *demo.stages.pretrain,
            *SHORTER,
            f"position={option.stem}",
            *["size.layers=4"] * layered,
        ]
        model, _ = relpos.load(relpos.run(relpos.compose("pretrain", overrides)).path)
        # Where layers differ, a picture of each says more than one of each head; their windows hide
        # nothing from shorter text.
        layers = [
            pattern(model.encoder, layer, 128 if layered else 64)
            for layer in range(HEADS if layered else 1)
        ]
        held |= {
            f"{option.stem}.{key}": value
            for key, value in _arrays([part for part in layers if part]).items()
        }
        np.savez_compressed(FILE, **held)  # type: ignore[arg-type]
    return 0


def load() -> dict[str, Pattern]:
    """What each scheme adds to the scores once it is trained, of those that add something."""
    held, patterns = _held(), {}
    for name in (
        key.removesuffix(".what") for key in held if key.endswith(".what") and str(held[key])
    ):
        levels = torch.from_numpy(held[f"{name}.matrix"]).float()
        matrix = (
            levels.masked_fill(levels == NOT_SEEN, torch.nan) * float(held[f"{name}.most"]) / MOST
        )
        curves = (torch.from_numpy(held[f"{name}.{curve}"]).float() for curve in CURVES)
        patterns[name] = Pattern(str(held[f"{name}.what"]), matrix, *curves)
    return patterns


def _held() -> dict[str, np.ndarray]:
    if not FILE.exists():
        return {}
    with np.load(FILE) as file:
        return {name: file[name] for name in file.files}


def _arrays(layers: list[Pattern]) -> dict[str, np.ndarray]:
    """Of one layer its first heads, of several their first ones; nothing but an empty `what` where
    there are none."""
    if not layers:
        return {"what": np.array("")}
    heads = HEADS if len(layers) == 1 else 1
    matrix = torch.cat([layer.matrix[:heads] for layer in layers])
    most = float(matrix.nan_to_num().abs().max()) or 1.0
    levels = (matrix / most * MOST).round().nan_to_num(NOT_SEEN).to(torch.int8)
    curves = {
        curve: torch.cat([getattr(layer, curve)[:heads] for layer in layers]).half().numpy()
        for curve in CURVES
    }
    return {
        "what": np.array(layers[0].source),
        "matrix": levels.numpy(),
        "most": np.array(most),
        **curves,
    }


if __name__ == "__main__":
    sys.exit(main())

"""The claim that TISA is quickly fitted to what a trained model does with its positions (Wennberg & Henter 2021, Appendix C)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, Finding
from relpos.claims.scales import Scale
from relpos.claims.weights import OfModels, load


@dataclass(frozen=True)
class FitsFast(OfModels):
    """TISA is fitted to the profile of each head of the first layer: the mean of the position products by offset.

    The paper's 2,160 parameters are 144 heads of S = 5. Holds: at the CPU time a head takes here, `heads` of them take less
    than `seconds`; fails: more. How much of a profile's variance the fit holds stands beside.
    """

    kernels: int = 5
    heads: int = 144
    seconds: float = 20.0

    @property
    def says(self) -> str:
        return f"S = {self.kernels} is fitted to {self.heads} profiles like those of {self.row} in less than {self.seconds:g} s"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        from relpos.analysis.fit import fit_heads
        from relpos.analysis.patterns import pattern

        profiles = [pattern(load(folder).encoder, length=scale.meaning["length"]) for folder in folders]
        curves = [curve for found in profiles if found for curve in found.mean.numpy()]
        if not curves:
            return Finding(NOT_RUN, f"{self.row} has no position products", scale.label)
        fit_heads(curves[:1], self.kernels)  # importing torch is not part of the time
        began = time.process_time()
        held = [fit.r2 for fit in fit_heads(curves, self.kernels)]
        took = (time.process_time() - began) * self.heads / len(curves)
        figures = f"{took:.1f} s for {self.heads} heads; R² of the fits {', '.join(f'{one:.3f}' for one in held)}"
        return Finding(HOLDS if took < self.seconds else FAILS, f"{figures} ({len(folders)} models)", scale.label)

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
    """Fitting TISA to the profiles of trained heads is fast; a profile is what positions add to a head's scores, by offset.

    The heads of the first layer are fitted, and their CPU time is scaled to `heads`: the paper's 2,160 parameters are 144 heads
    with S = 5. Holds below `seconds`, fails above. The R² of each fit is shown.

    Args:
        kernels: S.
        heads: to whose number the time is scaled.
        seconds: the limit.
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
        curves = [curve for profile in profiles if profile for curve in profile.mean.numpy()]
        if not curves:
            return Finding(NOT_RUN, f"{self.row} has no position products", scale.label)
        fit_heads(curves[:1], self.kernels)  # importing torch is not part of the time
        began = time.process_time()
        fitted = [fit.r2 for fit in fit_heads(curves, self.kernels)]
        seconds = (time.process_time() - began) * self.heads / len(curves)
        figures = f"{seconds:.1f} s for {self.heads} heads; R² of the fits {', '.join(f'{r2:.3f}' for r2 in fitted)}"
        return Finding(HOLDS if seconds < self.seconds else FAILS, f"{figures} ({len(folders)} models)", scale.label)

"""The claim that TISA is quickly fitted to what a trained model does with its positions (Wennberg & Henter 2021, Appendix C)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, Finding
from relpos.claims.scales import Scale
from relpos.claims.weights import OfModels, encoder


@dataclass(frozen=True)
class FitsFast(OfModels):
    """Fitting TISA to the profiles of trained heads is fast; a profile is what positions add to a head's scores, by offset.

    The profiles of the first layer, repeated until they are `heads`, are fitted at once: the paper's 2,160 parameters are 144 heads
    with S = 5. Holds below `seconds` of CPU time, fails above. The R² of each fit is shown.

    Args:
        kernels: S.
        heads: how many are fitted.
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

        profiles = [pattern(encoder(folder), length=scale.meaning["length"]) for folder in folders]
        curves = [curve for profile in profiles if profile for curve in profile.mean.numpy()]
        if not curves:
            return Finding(NOT_RUN, f"{self.row} has no position products", scale.label)
        fit_heads(curves[:1], self.kernels)  # so that importing torch is not part of the time
        # Fitted are as many heads as are timed, since time is not proportional to them: they share out the random starts.
        repeated = np.resize(curves, (self.heads, len(curves[0])))
        began = time.process_time()
        fits = fit_heads(repeated, self.kernels)
        seconds = time.process_time() - began
        r2 = ", ".join(f"{fit.r2:.3f}" for fit in fits[: len(curves)])
        figures = f"{seconds:.1f} s for {self.heads} heads; R² of the fits {r2}"
        return Finding(HOLDS if seconds < self.seconds else FAILS, f"{figures} ({len(folders)} models)", scale.label)

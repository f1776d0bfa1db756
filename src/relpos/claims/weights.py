"""Claims about what trained models have learned, looked up in their weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding
from relpos.claims.scales import Scale, Scales
from relpos.tables.statistics import ALPHA

NEAR_K = 8
SHORT = 2
"""Offsets that count as a short distance."""


@dataclass(frozen=True)
class OfModels:
    """Looks at the finished pre-trainings of one row."""

    row: str

    @property
    def rows(self) -> tuple[str, ...]:
        """The one."""
        return (self.row,)

    def findings(self, scales: Scales) -> list[Finding]:
        """Of every scale that has such models."""
        return [self.at(scale, [*scale.folders[self.row].values()]) for scale in scales if self.row in scale.folders]

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        """The verdict at one scale."""
        raise NotImplementedError


@dataclass(frozen=True)
class KernelKinds(OfModels):
    """The kernels of a row fall into the kinds of `relpos.analysis.kernel_types`, each group of kinds at least once.

    Holds: every group is there, and more kernels have a kind than the same kernels in random order (binomial test, one-sided, 0.05;
    uniform ones count for neither). Fails: a group is missing among 24 kernels or more, or as few have a kind as in random order
    (0.05 the other way). `profiles` looks at what positions do to each head's scores in the first layer instead; `short` asks that
    half of the heads that are not uniform peak at a distance of two tokens at most.
    """

    groups: Sequence[Sequence[str]] = ()
    profiles: bool = False
    short: bool = False

    @property
    def says(self) -> str:
        return f"kernels of {self.row} are of the kinds {', '.join('/'.join(group) for group in self.groups)}, more than by chance"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        from scipy.stats import binomtest

        from relpos.analysis.kernel_types import by_chance, counted

        kernels = np.concatenate([curves(folder, self.profiles) for folder in folders])
        kinds = counted(kernels)
        shaped = kernels[[one != "uniform" for one in _kinds(kernels)]]
        typed = len(shaped) - kinds["other"]
        chance = by_chance(shaped) if len(shaped) else 0.0
        missing = ["/".join(group) for group in self.groups if not any(kinds[one] for one in group)]
        more, fewer = (
            float(binomtest(typed, len(shaped), chance, alternative=side).pvalue) if len(shaped) else 1.0
            for side in ("greater", "less")
        )
        verdict = UNDECIDED
        if not missing and more < ALPHA and self._is_short(shaped):
            verdict = HOLDS
        elif (missing and len(kernels) >= 24) or fewer < ALPHA:
            verdict = FAILS
        said = ", ".join(f"{name} {count}" for name, count in kinds.most_common())
        absent = f"; none is {', '.join(missing)}" if missing else ""
        shares = f"{typed / max(1, len(shaped)):.0%} of {len(shaped)} not uniform have a kind, {chance:.0%} in random order"
        figures = f"{len(kernels)} kernels of {len(folders)} models: {said}; {shares}{absent}"
        return Finding(verdict, figures, scale.label)

    def _is_short(self, shaped: np.ndarray) -> bool:
        peaks = np.abs(shaped.argmax(axis=1) - shaped.shape[1] // 2)
        return not self.short or bool(len(peaks) and np.mean(peaks <= SHORT) >= 0.5)


def _kinds(kernels: np.ndarray) -> list[str]:
    from relpos.analysis.kernel_types import kind

    return [kind(kernel) for kernel in kernels]


def curves(folder: Path, profiles: bool = False, share: int | None = None) -> np.ndarray:
    """(kernels, 17): what a model adds to the scores at offsets −8 … 8, a line a layer and head; of the first layer for `profiles`.

    Args:
        folder: of a pre-training.
        profiles: of any scheme, as `relpos.analysis.patterns` finds them.
        share: the snapshot at so many per cent of the steps; None: the end.
    """
    from relpos.analysis.kernels import learned_kernels
    from relpos.analysis.patterns import pattern

    model = load(folder, share)
    if not profiles:
        return np.concatenate([one.numpy() for one in learned_kernels(model, k=NEAR_K)])
    found = pattern(model.encoder)
    if found is None:
        return np.empty((0, 2 * NEAR_K + 1))
    middle = found.mean.shape[1] // 2
    return found.mean[:, middle - NEAR_K : middle + NEAR_K + 1].numpy()


def load(folder: Path, share: int | None = None) -> Any:
    """The model of a pre-training, at its end or at a snapshot."""
    from relpos.train.weights import load_model, load_weights

    model = load_model(folder / "model")
    if share is not None:
        load_weights(model, folder / "snapshots" / f"{share}.safetensors")
    return model


def snapshots(folder: Path) -> list[int]:
    """Per cents of the steps at which weights were kept."""
    return sorted(int(path.stem) for path in (folder / "snapshots").glob("*.safetensors"))


@dataclass(frozen=True)
class Neighbours(OfModels):
    """The largest, and the smallest, weights of depthwise kernels stand at −1 or +1 more often than two of 2k+1 places by chance.

    Holds: so for both, by a one-sided binomial test at 0.05. Fails: neither more often. Counted over all channels of all layers.
    """

    @property
    def says(self) -> str:
        return f"channels of {self.row} have their largest weight at −1 or +1, others their smallest, more often than by chance"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        from scipy.stats import binomtest

        found: Counter[str] = Counter()
        by_layer: list[str] = []
        for folder in folders:
            layers = [layer.attention.conv.values.weight.detach().numpy() for layer in load(folder).encoder.layers]
            for kernels in layers:
                middle = kernels.shape[1] // 2
                own = {name: int((np.abs(place(kernels, axis=1) - middle) == 1).sum()) for name, place in _PLACES.items()}
                found.update(own | {"all": len(kernels)})
                by_layer.append(f"{own['largest'] / len(kernels):.0%}/{own['smallest'] / len(kernels):.0%}")
        chance = 2 / kernels.shape[1]
        p = {name: float(binomtest(found[name], found["all"], chance, alternative="greater").pvalue) for name in _PLACES}
        clear = [name for name in _PLACES if p[name] < ALPHA]
        verdict = HOLDS if len(clear) == 2 else UNDECIDED if clear else FAILS
        said = ", ".join(f"{name} {found[name] / found['all']:.0%} (p {p[name]:.1g})" for name in _PLACES)
        figures = f"weight at −1 or +1 of {found['all']:,} channels: {said}, by chance {chance:.0%}; by layer {' '.join(by_layer)}"
        return Finding(verdict, figures, scale.label)


_PLACES = {"largest": np.argmax, "smallest": np.argmin}


@dataclass(frozen=True)
class EarlyKinds(OfModels):
    """Kernels take their kinds early: at the first tenth of the steps, as many have one as at the end, to within a fifth.

    Holds or fails by the numbers of all models; not run without snapshots in the first tenth. Uniform kernels have none.
    """

    early: int = 10

    @property
    def says(self) -> str:
        return f"kernels of {self.row} have their kinds after {self.early} % of the steps"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        shares = {folder: [share for share in snapshots(folder) if share <= self.early] for folder in folders}
        kept = {folder: found[-1] for folder, found in shares.items() if found}
        if not kept:
            return Finding(NOT_RUN, f"needs snapshots=[…] at {self.early} % or before", scale.label)
        counts = []
        for folder, share in kept.items():
            kinds = [_kinds(curves(folder, share=at)) for at in (share, None)]
            counts.append([sum(kind not in ("uniform", "other") for kind in one) / len(one) for one in kinds])
        early, late = np.mean(counts, axis=0)
        verdict = UNDECIDED if late < 0.1 else HOLDS if early >= 0.8 * late else FAILS
        return Finding(verdict, f"{early:.0%} of the kernels early, {late:.0%} at the end, {len(kept)} models", scale.label)

"""Claims about what trained models have learned, looked up in their weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from relpos.claims.effort import MOST, longer, models, trials
from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding
from relpos.claims.requirements import Requirements
from relpos.claims.scales import Scale, Scales
from relpos.pretrained.files import is_published
from relpos.tables.statistics import ALPHA

NEAR_K = 8
"""Kernels are compared at offsets −8 … 8."""
ENOUGH = 24
"""The fewest kernels among which a kind that none has counts as missing."""
SHORT = 2
"""The largest offset that counts as a short distance."""
LEAST_TYPED = 0.1
"""If a smaller share of the kernels has a kind at the end, nothing can be said about when they took it."""


@dataclass(frozen=True)
class OfModels:
    """Looks at the finished pre-trainings of one row."""

    row: str

    @property
    def rows(self) -> tuple[str, ...]:
        """The row."""
        return (self.row,)

    @property
    def requires(self) -> Requirements:
        """One pre-training."""
        return Requirements()

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each scale with such models; it says so if the runs came here without their weights (`relpos merge`).

        Published checkpoints come last. Where they do not tell, because snapshots or several trainings are needed, nothing is said.
        """
        found = [self._of(scale) for scale in scales if self.row in scale.folders]
        published = [self._of(scale) for scale in scales.published if self.row in scale.folders]
        return found + [finding for finding in published if finding.verdict != NOT_RUN]

    def _of(self, scale: Scale) -> Finding:
        folders = [folder for folder in scale.folders[self.row].values() if (folder / "model").is_dir() or is_published(folder)]
        if not folders:
            needs = f"needs the weights of {self.row}, which are not here (relpos merge FOLDER weights=true)"
            return Finding(NOT_RUN, needs, scale.label)
        return self.at(scale, folders)

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        """The verdict at one scale."""
        raise NotImplementedError


@dataclass(frozen=True)
class KernelKinds(OfModels):
    """The kernels of a row are of the kinds of `relpos.analysis.kernel_types`, each group of kinds at least once.

    Holds: every group occurs, and more kernels have a kind than if their weights were shuffled (one-sided binomial test at 0.05;
    uniform kernels are not counted). Fails: a group is missing among 24 kernels or more, or fewer kernels have a kind than if their
    weights were shuffled.

    Args:
        groups: lists of kinds; at least one kernel must have a kind of each list.
        profiles: look at what positions add to the scores of each head of the first layer, instead of at learned kernels.
        short: at least half of the heads that are not uniform must peak at a distance of two tokens or less.
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
        counts = counted(kernels)
        shaped = kernels[[name != "uniform" for name in _kinds(kernels)]]
        n_typed = len(shaped) - counts["other"]
        chance = by_chance(shaped) if len(shaped) else 0.0
        missing = ["/".join(group) for group in self.groups if not any(counts[name] for name in group)]
        more, fewer = (
            float(binomtest(n_typed, len(shaped), chance, alternative=side).pvalue) if len(shaped) else 1.0
            for side in ("greater", "less")
        )
        verdict, p, takes = UNDECIDED, min(more, fewer, 1.0), ""
        if not missing and more < ALPHA and self._is_short(shaped):
            verdict = HOLDS
        elif (missing and len(kernels) >= ENOUGH) or fewer < ALPHA:
            verdict = FAILS
        else:
            times = ENOUGH / len(kernels) if missing else trials(n_typed / max(1, len(shaped)), chance, max(1, len(shaped)))
            takes = models(scale, self.row, ceil(times * len(folders))) if times < MOST else longer(scale)
        said = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        absent = f"; none is {', '.join(missing)}" if missing else ""
        shares = f"{n_typed / max(1, len(shaped)):.0%} of {len(shaped)} not uniform have a kind, {chance:.0%} in random order"
        figures = f"{len(kernels)} kernels of {len(folders)} models: {said}; {shares}{absent}"
        return Finding(verdict, figures, scale.label, p, takes)

    def _is_short(self, shaped: np.ndarray) -> bool:
        peaks = np.abs(shaped.argmax(axis=1) - shaped.shape[1] // 2)
        return not self.short or bool(len(peaks) and np.mean(peaks <= SHORT) >= 0.5)


def _kinds(kernels: np.ndarray) -> list[str]:
    from relpos.analysis.kernel_types import kind

    return [kind(kernel) for kernel in kernels]


def curves(folder: Path, profiles: bool = False, share: int | None = None) -> np.ndarray:
    """(kernels, 17): what a model adds to the scores at offsets −8 … 8, one line for each layer and head.

    Args:
        folder: of a pre-training.
        profiles: for any scheme, the profiles of the first layer's heads that `relpos.analysis.patterns` computes.
        share: the snapshot at so many per cent of the steps; None: the end.
    """
    from relpos.analysis.kernels import learned_kernels
    from relpos.analysis.patterns import pattern

    if not profiles:
        return np.concatenate([kernels.numpy() for kernels in learned_kernels(load(folder, share), k=NEAR_K)])
    shown = pattern(encoder(folder, share))
    if shown is None:
        return np.empty((0, 2 * NEAR_K + 1))
    middle = shown.mean.shape[1] // 2
    return shown.mean[:, middle - NEAR_K : middle + NEAR_K + 1].numpy()


def load(folder: Path, share: int | None = None) -> Any:
    """The model of a pre-training, at its end or at a snapshot; or a published one. In float32."""
    from relpos.train.weights import load_model, load_weights

    own = folder / "model"
    model = load_model(own if own.is_dir() else folder).float()
    if share is not None:
        load_weights(model, folder / "snapshots" / f"{share}.safetensors")
    return model


def encoder(folder: Path, share: int | None = None) -> Any:
    """The encoder of `load`, of a model with a head or without."""
    from relpos.analysis.kinds.subject import encoder_of

    return encoder_of(load(folder, share))


def snapshots(folder: Path) -> list[int]:
    """Per cents of the steps at which weights were kept."""
    return sorted(int(path.stem) for path in (folder / "snapshots").glob("*.safetensors"))


@dataclass(frozen=True)
class Neighbours(OfModels):
    """Depthwise kernels have their largest weight at −1 or +1 more often than by chance (2 of 2k+1 places), and so their smallest.

    Holds: one-sided binomial tests at 0.05 show both, over all channels of all layers. Fails: they show neither.
    """

    @property
    def says(self) -> str:
        return f"channels of {self.row} have their largest weight at −1 or +1, others their smallest, more often than by chance"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        from scipy.stats import binomtest

        counts: Counter[str] = Counter()
        by_layer: list[str] = []
        for folder in folders:
            layers = [layer.attention.conv.values.weight.detach().numpy() for layer in encoder(folder).layers]
            for kernels in layers:
                middle = kernels.shape[1] // 2
                neighbours = {name: int((np.abs(place(kernels, axis=1) - middle) == 1).sum()) for name, place in _PLACES.items()}
                counts.update(neighbours | {"all": len(kernels)})
                by_layer.append(f"{neighbours['largest'] / len(kernels):.0%}/{neighbours['smallest'] / len(kernels):.0%}")
        chance, n = 2 / kernels.shape[1], counts["all"]
        p = {name: float(binomtest(counts[name], n, chance, alternative="greater").pvalue) for name in _PLACES}
        clear = [name for name in _PLACES if p[name] < ALPHA]
        verdict = HOLDS if len(clear) == 2 else UNDECIDED if clear else FAILS
        takes = ""
        if verdict == UNDECIDED:
            times = max(trials(counts[name] / n, chance, n) for name in _PLACES if name not in clear)
            takes = models(scale, self.row, ceil(times * len(folders)))
        said = ", ".join(f"{name} {counts[name] / n:.0%} (p {p[name]:.1g})" for name in _PLACES)
        figures = f"weight at −1 or +1 of {n:,} channels: {said}, by chance {chance:.0%}; by layer {' '.join(by_layer)}"
        return Finding(verdict, figures, scale.label, max(p.values()) if verdict == HOLDS else None, takes)


_PLACES = {"largest": np.argmax, "smallest": np.argmin}


@dataclass(frozen=True)
class EarlyKinds(OfModels):
    """Kernels take their kinds early: after a tenth of the steps at least four fifths as many have one as at the end.

    The counts of all models together decide. Not run without a snapshot in the first tenth of the steps. Uniform kernels count as
    having no kind; if fewer than a tenth of the kernels have a kind at the end, the claim is undecided.
    """

    early: int = 10

    @property
    def says(self) -> str:
        return f"kernels of {self.row} have their kinds after {self.early} % of the steps"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        early_shares = {folder: [share for share in snapshots(folder) if share <= self.early] for folder in folders}
        kept = {folder: shares[-1] for folder, shares in early_shares.items() if shares}
        if not kept:
            return Finding(NOT_RUN, f"needs snapshots=[…] at {self.early} % or before", scale.label)
        typed = []
        for folder, share in kept.items():
            kinds = [_kinds(curves(folder, share=then)) for then in (share, None)]
            typed.append([sum(name not in ("uniform", "other") for name in names) / len(names) for names in kinds])
        early, late = np.mean(typed, axis=0)
        verdict = UNDECIDED if late < LEAST_TYPED else HOLDS if early >= 0.8 * late else FAILS
        figures = f"{early:.0%} of the kernels early, {late:.0%} at the end, {len(kept)} models"
        return Finding(verdict, figures, scale.label, takes=longer(scale) if verdict == UNDECIDED else "")

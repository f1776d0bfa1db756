"""TISA's sum of basis functions fitted to a curve over offsets (Wennberg & Henter 2021, Appendix C)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

SHARPNESS = (0.003, 0.03, 0.3, 3.0)
"""Where a new basis function starts: from one as wide as a paragraph to one of a single token."""

LOOKS = 60
"""Evaluations from each start; with more of them the fit of a profile hardly gets better."""


Functions = Float[np.ndarray, "functions"]  # a number for each basis function
Offsets = Float[np.ndarray, "offsets"]  # a number for each offset
Parameters = Float[np.ndarray, "parameters"]  # all a, all b, all c, the constant


@dataclass(frozen=True)
class Fit:
    """f(o) = constant + Σ_s a_s exp(−|b_s| (o − c_s)²), and how much of the curve's variance it holds.

    A softmax does not see the constant; without it a curve that is not near 0 far away could not be met.
    """

    amplitude: Functions
    sharpness: Functions
    centre: Functions
    constant: float
    r2: float

    def __call__(self, offsets: ArrayLike) -> Float[np.ndarray, "..."]:
        """f at these offsets, of any shape."""
        return _f(np.concatenate([self.amplitude, self.sharpness, self.centre, [self.constant]]), np.asarray(offsets, np.float64))


def fit_tisa(curve: ArrayLike, functions: int = 5) -> Fit:
    """Least squares; the basis functions come one after another, each to where most is missing, and all are refined together.

    Args:
        curve: (2n−1), at offsets 1−n … n−1.
        functions: S.

    Raises:
        ValueError: fewer offsets than parameters, 3S + 1.
    """
    y = np.asarray(curve, dtype=np.float64)
    offsets = np.arange(len(y), dtype=np.float64) - len(y) // 2
    parameters = np.array([y.mean()])
    for s in range(functions):
        a, b, c, constant = np.split(parameters, [s, 2 * s, 3 * s])
        missing = y - _f(parameters, offsets)
        place = int(np.abs(missing).argmax())
        starts = [np.concatenate([a, [missing[place]], b, [width], c, [offsets[place]], constant]) for width in SHARPNESS]
        solutions = [_refined(start, offsets, y) for start in starts]
        parameters = min(solutions, key=lambda solution: solution.cost).x
    total = float(((y - y.mean()) ** 2).sum())
    left = float(((_f(parameters, offsets) - y) ** 2).sum())
    a, b, c, constant = np.split(parameters, [functions, 2 * functions, 3 * functions])
    return Fit(a, np.abs(b), c, float(constant[0]), 1.0 - left / total if total > 0 else 1.0)


def _refined(start: Parameters, offsets: Offsets, y: Offsets) -> Any:
    from scipy.optimize import least_squares

    def left(parameters: Parameters) -> Offsets:
        return _f(parameters, offsets) - y

    return least_squares(left, start, lambda parameters: _slopes(parameters, offsets), x_scale="jac", method="lm", max_nfev=LOOKS)


def _f(parameters: Parameters, offsets: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The constant stands last, behind all a, all b and all c."""
    a, b, c = np.split(parameters[:-1], 3)
    return np.asarray(parameters[-1] + (a * np.exp(-np.abs(b) * (offsets[..., None] - c) ** 2)).sum(-1))


def _slopes(parameters: Parameters, offsets: Offsets) -> Float[np.ndarray, "offsets parameters"]:
    """The derivatives of f, which make the search several times as fast."""
    a, b, c = np.split(parameters[:-1], 3)
    away = offsets[:, None] - c
    bump = np.exp(-np.abs(b) * away**2)
    return np.concatenate(
        [bump, -np.sign(b) * a * away**2 * bump, 2 * a * np.abs(b) * away * bump, np.ones((len(offsets), 1))], axis=1
    )

"""TISA's sum of basis functions fitted to curves over offsets (Wennberg & Henter 2021, Appendix C).

f(o) = constant + Σ_s a_s exp(−b_s (o − c_s)²) is linear in a and in the constant, so least squares
searches for b and c alone and solves for the others at each step (variable projection, Golub &
Pereyra 1973, with Kaufman's Jacobian). All heads, and all starts of each, are one batch of small
problems, of which torch computes every step together; scipy's `least_squares`, which takes them one
by one, needed three times as long for the same search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor

from relpos.errors import RelposError

SHARPNESS = (0.003, 0.03, 0.3, 3.0)
"""Sharpness b with which a new basis function starts: from one as wide as a paragraph to one of a
single token."""

EARLY, LATE = 12, 80
"""Steps of the search after each new basis function, and after the last one."""

STARTS, RESTARTS, RESTART_STEPS = 1_152, range(8, 65), 30
"""Random starts of all unmet curves together, least and most (exclusive) of a single curve, and
steps of each."""

SWAPS = 3
"""How often, at most, one basis function of an unmet curve is removed and placed elsewhere."""

GAIN = 0.01
"""Share of the squared error that a swap must remove for another to follow."""

MET = 0.9999
"""A curve whose fit has this R² is met: it is not started again."""

Functions = Float[np.ndarray, "functions"]  # a number for each basis function
Problems = Float[Tensor, "problems"]
Parameters = Float[Tensor, "problems functions"]  # log b, or c
Curves = Float[Tensor, "problems offsets"]


@dataclass(frozen=True)
class Fit:
    """f(o) = constant + Σ_s a_s exp(−|b_s| (o − c_s)²), and the share r2 of the curve's variance
    that it explains.

    The constant cancels in a softmax; without it no curve could be met whose far ends are not near
    0.
    """

    amplitude: Functions
    sharpness: Functions
    centre: Functions
    constant: float
    r2: float

    def __call__(self, offsets: ArrayLike) -> Float[np.ndarray, "..."]:
        """f at these offsets, of any shape."""
        away = np.asarray(offsets, np.float64)[..., None] - self.centre
        values: Float[np.ndarray, "..."] = self.constant + (
            self.amplitude * np.exp(-np.abs(self.sharpness) * away**2)
        ).sum(-1)
        return values


def fit_heads(curves: ArrayLike, functions: int = 5, weights: ArrayLike = 1.0) -> list[Fit]:
    """Least squares from several starts; a fit for each curve.

    First the basis functions are added one after another, each where the residual is largest, in
    four widths of which the best is kept; then all are refined together. A curve that is not met by
    this (`MET`) is started again, from centres drawn where it bends most.

    Args:
        curves: (heads, 2n−1), at offsets 1−n … n−1.
        functions: S.
        weights: (2n−1) of the squared errors, and of R², or one for all. With n − |o| a fit to a
            curve is one to an n × n matrix.

    Raises:
        RelposError: fewer offsets than parameters, 3S + 1, or a number that is not finite.
    """
    y = torch.as_tensor(np.array(curves, np.float64))
    if not y.isfinite().all():
        raise RelposError("a fit needs finite numbers")
    heads, width = y.shape
    check_offsets(width, functions)
    # Residuals are multiplied by the roots, so that the sums of squares below are weighted ones.
    root = torch.as_tensor(np.sqrt(np.broadcast_to(np.asarray(weights, np.float64), width)))
    offsets = torch.arange(width, dtype=torch.float64) - width // 2
    problem = _FitProblem(y, offsets, root)
    empty = y.new_zeros(heads, 0)
    state = _solve(problem, empty, empty)  # no basis function yet: the best constant
    total = state.cost
    for _ in range(functions):
        state = _one_more(problem, state)
    if functions:
        state = _search(problem, state.log_b, state.c, LATE)
        state = _started_again(problem, state, total)
        unmet = (state.cost > (1 - MET) * total).nonzero().squeeze(1)
        for _ in range(SWAPS):
            swapped = _swapped(problem, state, unmet)
            unmet = unmet[swapped.cost[unmet] < (1 - GAIN) * state.cost[unmet]]
            state = swapped
    # else the curve is a constant, met to rounding
    varies = total > 1e-16 * (problem.y * root).square().sum(1)
    r2 = torch.where(varies, 1 - state.cost / total.clamp_min(1e-300), 1.0)
    functions_of = (x.numpy() for x in (state.linear[:, :-1], state.log_b.exp(), state.c))
    numbers = state.linear[:, -1].tolist(), r2.tolist()
    return [Fit(*of_head) for of_head in zip(*functions_of, *numbers, strict=True)]


def check_offsets(width: int, functions: int) -> None:
    """Raises RelposError where so many offsets are fewer than the parameters of a fit."""
    if width < 3 * functions + 1:
        raise RelposError(
            f"{width} offsets are too few for the {3 * functions + 1} parameters of "
            f"{functions} basis functions"
        )


class _FitProblem(NamedTuple):
    y: Curves
    offsets: Float[Tensor, "offsets"]
    root: Float[Tensor, "offsets"]  # square roots of the weights


class _State(NamedTuple):
    """The linear part solved at some (log b, c)."""

    log_b: Parameters
    c: Parameters
    away: Float[Tensor, "problems offsets functions"]
    bumps: Float[Tensor, "problems offsets functions"]
    design: Float[Tensor, "problems offsets functions+1"]
    factor: Float[Tensor, "problems functions+1 functions+1"]
    linear: Float[Tensor, "problems functions+1"]  # all a, the constant last
    residual: Curves
    cost: Problems


def _solve(problem: _FitProblem, log_b: Parameters, c: Parameters) -> _State:
    away = problem.offsets[:, None] - c[:, None, :]
    bumps = torch.exp(-log_b.exp()[:, None] * away * away)
    design = torch.cat([bumps, bumps.new_ones(*bumps.shape[:2], 1)], 2) * problem.root[:, None]
    gram = design.mT @ design
    # A little ridge: two basis functions that have become equal share their amplitude.
    largest = gram.diagonal(dim1=1, dim2=2).amax(1, keepdim=True)
    gram = gram + torch.diag_embed(1e-10 * largest.expand(-1, gram.shape[1]))
    factor = torch.linalg.cholesky_ex(gram)[0]
    target = (problem.y * problem.root)[..., None]
    linear = torch.cholesky_solve(design.mT @ target, factor)
    residual = (design @ linear - target)[..., 0]
    cost = residual.square().sum(1)
    return _State(
        log_b,
        c,
        away,
        bumps,
        design,
        factor,
        linear[..., 0],
        residual,
        cost,
    )


def _search(problem: _FitProblem, log_b: Parameters, c: Parameters, steps: int) -> _State:
    """Levenberg–Marquardt over (log b, c); each problem takes only the steps that lower its own
    cost."""
    functions = log_b.shape[1]
    damping = problem.y.new_full((len(log_b),), 1e-2)
    state = _solve(problem, log_b, c)
    for _ in range(steps):
        a = state.linear[:, None, :-1]
        b = state.log_b.exp()[:, None]
        slopes = a * state.bumps * state.away * b
        jacobian = torch.cat([-slopes * state.away, 2 * slopes], 2) * problem.root[:, None]
        # Kaufman: what the linear part can make good again is no reason to move b or c.
        jacobian = jacobian - state.design @ torch.cholesky_solve(
            state.design.mT @ jacobian,
            state.factor,
        )
        normal = jacobian.mT @ jacobian
        diagonal = normal.diagonal(dim1=1, dim2=2)
        # The last two terms: a basis function of amplitude 0 has no slope, which would make the
        # matrix singular.
        damped = normal + torch.diag_embed(
            damping[:, None] * diagonal + 1e-12 * diagonal.amax(1, keepdim=True) + 1e-30
        )
        # `nan_to_num`: a problem that is singular all the same stays where it is.
        slope = jacobian.mT @ state.residual[..., None]
        step = torch.linalg.solve_ex(damped, slope)[0][..., 0].nan_to_num(0)
        # Bounded steps, because the linearisation holds nearby only; bounded b, beyond which curves
        # look alike.
        new_b = (state.log_b - step[:, :functions].clamp(-1.5, 1.5)).clamp(-14, 4)
        tried = _solve(problem, new_b, state.c - step[:, functions:].clamp(-20, 20))
        better = tried.cost < state.cost
        # Each problem has a damping of its own: one that has gone astray must not slow down the
        # others.
        damping = torch.where(better, damping / 3, damping * 4).clamp(1e-9, 1e9)
        parts = []
        for new, old in zip(tried, state, strict=True):
            parts.append(torch.where(better.view(-1, *[1] * (new.dim() - 1)), new, old))
        state = _State(*parts)
    return state


def _one_more(problem: _FitProblem, state: _State) -> _State:
    """Adds a basis function where the residual is largest, in the width that helps most."""
    heads = len(problem.y)
    widths = len(SHARPNESS)
    # A new basis function is of most use where the others leave most.
    place = problem.offsets[state.residual.abs().argmax(1)]
    sharpness = torch.tensor(SHARPNESS, dtype=torch.float64).log().repeat(heads)[:, None]
    log_b = torch.cat([state.log_b.repeat_interleave(widths, 0), sharpness], 1)
    c = torch.cat([state.c, place[:, None]], 1).repeat_interleave(widths, 0)
    repeated = problem._replace(y=problem.y.repeat_interleave(widths, 0))
    return _best(_search(repeated, log_b, c, EARLY), heads)


def _started_again(problem: _FitProblem, state: _State, total: Problems) -> _State:
    """The best of random starts of each unmet curve, where that is better than its state."""
    unmet = (state.cost > (1 - MET) * total).nonzero().squeeze(1)
    if not len(unmet):
        return state
    generator = torch.Generator().manual_seed(0)
    y = problem.y[unmet]
    bends = torch.nn.functional.pad((y[:, 2:] - 2 * y[:, 1:-1] + y[:, :-2]).abs(), (1, 1)) + 1e-12
    functions = state.c.shape[1]
    starts = min(max(STARTS // len(unmet), RESTARTS[0]), RESTARTS[-1])
    repeated = problem._replace(y=y.repeat_interleave(starts, 0))
    c = problem.offsets[
        torch.multinomial(bends.repeat_interleave(starts, 0), functions, generator=generator)
    ]
    low = np.log(SHARPNESS[0])
    high = np.log(SHARPNESS[-1])
    # Widths are drawn evenly on the scale of their logarithms: from a word to a paragraph.
    log_b = low + (high - low) * torch.rand(c.shape, generator=generator, dtype=torch.float64)
    return _merged(problem, state, _search(repeated, log_b, c, RESTART_STEPS), unmet)


def _swapped(problem: _FitProblem, state: _State, unmet: Tensor) -> _State:
    """Moves one basis function of each unmet curve, the one whose move helps most, to where the
    residual is then largest; keeps the old state where that is better."""
    functions = state.c.shape[1]
    if not len(unmet):
        return state
    # (functions, functions − 1): in each row another one is missing
    index = torch.arange(functions).expand(functions, -1)
    index = index[~torch.eye(functions, dtype=torch.bool)].view(functions, functions - 1)
    log_b, c = (part[unmet][:, index].flatten(0, 1) for part in (state.log_b, state.c))
    repeated = problem._replace(y=problem.y[unmet].repeat_interleave(functions, 0))
    return _merged(problem, state, _one_more(repeated, _solve(repeated, log_b, c)), unmet)


def _merged(problem: _FitProblem, state: _State, starts: _State, rows: Tensor) -> _State:
    """`state` with those of `rows` replaced whose cost is lower after a search from the best of
    their new `starts`."""
    best = _best(starts, len(rows))
    # Only the best start is worth the many steps.
    anew = _search(problem._replace(y=problem.y[rows]), best.log_b, best.c, LATE)
    better = anew.cost < state.cost[rows]
    merged = [part.clone() for part in state]
    for whole, part in zip(merged, anew, strict=True):
        whole[rows[better]] = part[better]
    return _State(*merged)


def _best(state: _State, heads: int) -> _State:
    """The best start of each head; the starts of a head are neighbours."""
    starts = len(state.cost) // heads
    best = state.cost.view(heads, starts).argmin(1) + starts * torch.arange(heads)
    return _State(*(part[best] for part in state))

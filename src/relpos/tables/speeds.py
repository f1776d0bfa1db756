"""Operations a second that runs reach on this machine: measured if possible, else guessed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from relpos.runs.cost import REACHED, Rates, matrix_product, measured
from relpos.runs.execute import hardware
from relpos.runs.run import Run, runs_root

if TYPE_CHECKING:
    from relpos.runs.trial import Trials


class Speeds:
    """Operations a second and device that runs like a given one reach here.

    Args:
        runs: of a plan; finished runs among them serve as measurements, as do those of other plans.
        tries: whether to try a step of a small model if nothing has been measured; this imports torch and takes a second.
    """

    def __init__(self, runs: Sequence[Run] = (), tries: bool = True) -> None:
        self.runs, self.tries, self.guess = runs, tries, 0.0

    @cached_property
    def finished(self) -> Rates:
        return measured(self.runs, runs_root(), hardware())

    @cached_property
    def trials(self) -> Trials:
        from relpos.runs.trial import Trials

        return Trials()

    def of(self, run: Run) -> tuple[float, str]:
        """The rate, and where it comes from."""
        if rate := self.finished.of(run):
            return rate, "the rate of finished runs of the same size"
        if rate := self.finished.tried(run):
            return rate, "the rate that `relpos cost` measured"
        if self.tries and (rate := self.trials.of(run)):
            return rate, "the rate of a step tried here"
        self.guess = self.guess or matrix_product() * REACHED
        return self.guess, f"a guess, {REACHED:.0%} of the rate of a matrix product here (`relpos cost size=…` measures)"

"""What it would take to test a claim that has no runs: one of the experiment files that are about it, as a command.

Chosen is one that needs nothing afterwards, then one without pre-trainings, then the one whose pre-trainings take least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from relpos.claims.claim import Claim
from relpos.claims.rule import Requirements
from relpos.claims.verdict import plural
from relpos.config.compose import values
from relpos.config.conf import key_of
from relpos.results.checkpoints import row_of
from relpos.results.scale import RATES, read_at, scheme
from relpos.results.values import Plain, rates_of
from relpos.runs.tasks import node_of
from relpos.tables.experiment import Experiment
from relpos.tables.plan import overrides_of

CHANGE: Plain = {"positions": "keep", "tisa": 0, "start": "regression", "reused": False}
"""The default of `change` in conf/finetune.yaml."""
TRAINING = ("size", "steps", "batch", "length")
"""Keys of a configuration that say how much a pre-training is."""


@dataclass(frozen=True)
class Plan:
    """The runs of an experiment that a claim is tested with: those of the `rows` that are needed."""

    experiment: Experiment
    rows: Sequence[str]
    requires: Requirements

    @property
    def pretrain_seeds(self) -> int:
        """Pre-trainings of each row. Those that the file has may be too few to show how much they differ."""
        return 0 if self.experiment.network else max(self.requires.seeds, len(self.experiment.pretrain_seeds or [0]))

    @property
    def pretrainings(self) -> list[dict[str, Any]]:
        """The keys `TRAINING` of each row's."""
        if self.experiment.network:
            return []
        overrides = [[*self.experiment.rows[row], *self.requires.overrides] for row in self.rows]
        return [
            _values(tuple(each for each in overrides_of("pretrain", self.experiment, some) if _is_of_training(each)))
            for some in overrides
        ]

    @property
    def price(self) -> tuple[bool, bool, int]:
        """A key to sort plans by, the cheapest first: the last is about how many weights times tokens the pre-trainings take."""
        each = [
            config["size"]["layers"] * config["size"]["hidden"] ** 2 * config["steps"] * config["batch"] * config["length"]
            for config in self.pretrainings
        ]
        return bool(self.afterwards), not self.experiment.network, self.pretrain_seeds * sum(each)

    @property
    def command(self) -> str:
        """`relpos reproduce table=length 'rows=[tisa]' pretrain_seeds=2`"""
        experiment = self.experiment
        overrides = [f"table={experiment.name}"]
        if set(self.rows) < set(experiment.rows):
            overrides.append(f"'rows=[{','.join(self.rows)}]'")
        if experiment.tasks and not self.requires.columns:
            overrides.append("stages=[pretrain]")
        if experiment.network == "???":
            # Words in capitals are for the user to fill in: where networks and texts lie, no experiment file knows.
            overrides.append("network=FOLDER")
        if experiment.network and not any(override.startswith("data=") for override in experiment.base):
            overrides.append("data=files")
        if "data=files" in [*experiment.base, *overrides]:
            overrides.append("data.root=FOLDER")
        overrides += self.requires.overrides
        if self.pretrain_seeds > len(experiment.pretrain_seeds or [0]):
            overrides.append(f"pretrain_seeds={self.pretrain_seeds}")
        return f"relpos reproduce {' '.join(overrides)}"

    @property
    def runs(self) -> str:
        """`12×256: 2 rows × 3 pre-training seeds × 1,000 steps, 8 tasks × 1 fine-tuning seed of each`"""
        experiment, said = self.experiment, plural(len(self.rows), "row")
        if trained := self.pretrainings:
            sizes = dict.fromkeys(f"{config['size']['layers']}×{config['size']['hidden']}" for config in trained)
            steps = " or ".join(f"{n:,}" for n in sorted({int(config["steps"]) for config in trained}))
            said = f"{' and '.join(sizes)}: {said} × {plural(self.pretrain_seeds, 'pre-training seed')} × {steps} steps"
        if not self.requires.columns:
            return said
        tunings = f"{plural(len(experiment.tasks), 'task')} × {plural(len(experiment.seeds), 'fine-tuning seed')}"
        return f"{said}, {tunings} of each" if trained else f"{said} × {tunings}"

    @property
    def afterwards(self) -> str:
        """What must be done after the runs; empty if nothing."""
        if self.requires.order and "shuffle" not in self.experiment.order:
            return "then `relpos order network=FOLDER` of each"
        return f"then {self.requires.afterwards}" if self.requires.afterwards else ""


class ToRun:
    """Says what it would take to test a claim whose rows are made by these overrides, with one of these experiment files."""

    def __init__(self, rows: Mapping[str, Sequence[str]], experiments: Iterable[Experiment]) -> None:
        self.row_of = {scheme(overrides): row for row, overrides in rows.items()}
        self.experiments = [file for file in experiments if not (file.parameters or file.properties) and file.name[0] != "_"]
        self.rows_of = {
            file.name: {name: self._row(file, overrides) for name, overrides in file.rows.items()} for file in self.experiments
        }

    def says(self, claim: Claim) -> str:
        """The cheapest way, in one line; empty if no experiment file has the rows, or if the claim needs no runs.

        >>> from relpos.claims.claim import load, rows
        >>> from relpos.tables.experiment import experiments
        >>> [claim] = [claim for claim in load("wennberg2021") if claim.id == "W19"]
        >>> ToRun(rows(), experiments()).says(claim)
        "relpos reproduce table=tisa_toy 'rows=[tisa,tisa_two]': 2×64: 2 rows × 5 pre-training seeds × 1,500 steps"
        """
        if (plan := self.plan(claim)) is None:
            return ""
        return "; ".join(filter(None, [f"{plan.command}: {plan.runs}", plan.afterwards]))

    def plan(self, claim: Claim) -> Plan | None:
        """The cheapest plan; None if there is none."""
        requires = claim.tester.requires
        if requires is None:
            return None
        about = [experiment for experiment in self.experiments if claim.id.partition("/")[0] in experiment.claims]
        plans = [plan for experiment in about if (plan := self._plan(experiment, claim, requires))]
        return min(plans, key=lambda plan: (plan.price, plan.experiment.name), default=None)

    def _plan(self, experiment: Experiment, claim: Claim, requires: Requirements) -> Plan | None:
        """The plan with this experiment; None if it does not serve."""
        wanted = claim.tester.rows
        if experiment.network and (not claim.checkpoints or len(experiment.seeds) < requires.seeds):
            return None
        if not experiment.network and claim.checkpoints == "only":
            return None
        # Tasks of a generated language are no GLUE.
        if requires.columns and "data=toy" in experiment.base:
            return None
        columns = {column for task in experiment.tasks for column in node_of(task).get("columns", [])}
        if len(columns.intersection(requires.columns)) < requires.least:
            return None
        named = {name: row for name, row in self.rows_of[experiment.name].items() if not wanted or row in wanted}
        if not set(wanted) <= set(named.values()):
            return None
        return Plan(experiment, read_at(named, experiment.rows.__getitem__, lambda name: _rates(experiment.rows[name])), requires)

    def _row(self, experiment: Experiment, overrides: Sequence[str]) -> str:
        """The row of the claims that these overrides make, if TISA starts from regression; empty if there is none."""
        if not experiment.network:
            return self.row_of.get(scheme(overrides_of("pretrain", experiment, overrides)), "")
        given = [each for each in overrides_of("finetune", experiment, overrides) if each.startswith("change.")]
        change = dict(override.removeprefix("change.").partition("=")[::2] for override in given)
        return row_of(CHANGE | change | {"tisa": int(change.get("tisa", 0))}, ("regression", False)) or ""


def _rates(overrides: Iterable[str]) -> tuple[Any, Any]:
    given = tuple(each for each in overrides if key_of(each) in RATES)
    return rates_of(values("pretrain", given, ("recipe",))["recipe"])


def _is_of_training(override: str) -> bool:
    return key_of(override).split(".")[0] in TRAINING


@cache
def _values(overrides: tuple[str, ...]) -> dict[str, Any]:
    # The experiment files repeat each other's overrides, and `relpos claims` asks about all of them.
    return values("pretrain", overrides, TRAINING)

"""What it would take to test a claim that has no runs: the command, the runs and their operations.

Chosen is the cheapest of the experiment files that are about the claim or, if none is, of those that have its rows once each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from relpos.claims.claim import Claim
from relpos.claims.effort import plural
from relpos.claims.rule import Requirements
from relpos.config.conf import key_of
from relpos.results.checkpoints import row_of
from relpos.results.scale import precedence, scheme
from relpos.results.values import Plain
from relpos.runs.estimate import duration
from relpos.tables.experiment import Experiment
from relpos.tables.plan import overrides_of
from relpos.tables.unplanned import RATES, Work, columns, rates, work

GPU = 1e14
"""Operations a second of a GPU, at which the experiment files state their cost."""
CHANGE: Plain = {"positions": "keep", "tisa": 0, "start": "regression", "reused": False}
"""The default of `change` in conf/finetune.yaml."""


@dataclass(frozen=True)
class Plan:
    """The runs of an experiment that a claim is tested with: those of the `rows` that are needed; `work` is what they cost."""

    experiment: Experiment
    rows: Sequence[str]
    requires: Requirements
    work: Sequence[Work]

    @property
    def operations(self) -> float:
        return sum(part.operations for part in self.work)

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
        # Those that the file has may be too few to show how much they differ.
        if not experiment.network and len(experiment.pretrain_seeds or [0]) < self.requires.seeds:
            overrides.append(f"pretrain_seeds={self.requires.seeds}")
        return f"relpos reproduce {' '.join(overrides)}"

    @property
    def runs(self) -> str:
        """`12×256: 2 rows × 3 pre-training seeds × 1,000 steps, 8 tasks × 1 fine-tuning seed of each`"""
        experiment, tasks = self.experiment, len(self.experiment.tasks)
        networks = [part.run.inputs.get("start", part.run).meaning["size"] for part in self.work]
        sizes = dict.fromkeys(f"{size['layers']}×{size['hidden']}" for size in networks)
        said = f"{' and '.join(sizes)}: {plural(len(self.rows), 'row')}"
        if not experiment.network:
            steps = sorted({int(part.run.config["steps"]) for part in self.work if part.run.stage == "pretrain"})
            seeds = max(self.requires.seeds, len(experiment.pretrain_seeds or [0]))
            said += f" × {plural(seeds, 'pre-training seed')} × {' or '.join(f'{n:,}' for n in steps)} steps"
        if self.requires.columns:
            tunings = f"{plural(tasks, 'task')} × {plural(len(experiment.seeds), 'fine-tuning seed')}"
            said += f" × {tunings}" if experiment.network else f", {tunings} of each"
        return said

    @property
    def afterwards(self) -> str:
        """What must be done after the runs; empty if nothing."""
        if self.requires.order and "shuffle" not in self.experiment.order:
            return "then `relpos order network=FOLDER` of each"
        return f"then {self.requires.afterwards}" if self.requires.afterwards else ""


class ToRun:
    """Says what it would take to test a claim whose rows are made by these overrides, with one of these experiment files."""

    def __init__(self, rows: Mapping[str, Sequence[str]], experiments: Iterable[Experiment]) -> None:
        self.experiments = [file for file in experiments if not file.parameters and file.name[0] != "_"]
        self.row_of = {scheme(overrides): row for row, overrides in rows.items()}
        self.known: dict[tuple[object, ...], list[Work]] = {}
        self.rows_of = {
            experiment.name: {name: self._row(experiment, overrides) for name, overrides in experiment.rows.items()}
            for experiment in self.experiments
        }

    def says(self, claim: Claim) -> str:
        """The cheapest way, in one line; empty if no experiment file has the rows, or if the claim needs no runs.

        >>> from relpos.claims.claim import experiments, load, rows
        >>> [claim] = [claim for claim in load("wennberg2021") if claim.id == "W19"]
        >>> ToRun(rows(), experiments()).says(claim).partition(":")[0]
        "relpos reproduce table=tisa_toy 'rows=[tisa,tisa_two]'"
        """
        plan = self.plan(claim)
        if plan is None:
            return ""
        # Where they are few, hours of a GPU say nothing.
        on_gpu = f", {duration(plan.operations / GPU)} at 100 TFLOP/s" if plan.operations > 360 * GPU else ""
        cost = f"{plan.operations:.2g} operations{on_gpu} (dry_run=true: time here)"
        return "; ".join(filter(None, [f"{plan.command}: {plan.runs}", cost, plan.afterwards]))

    def plan(self, claim: Claim) -> Plan | None:
        """The cheapest plan, preferably one after which nothing else must be done; None if there is none."""
        requires = claim.tester.requires
        if requires is None:
            return None
        about = [experiment for experiment in self.experiments if claim.id.partition("/")[0] in experiment.claims]
        files = about or self.experiments
        plans = [plan for experiment in files if (plan := self._plan(experiment, claim, requires, once=not about))]
        # A plan that measures by itself is preferred, even where another one costs less.
        measured = [plan for plan in plans if not plan.afterwards]
        return min(measured or plans, key=lambda plan: (plan.operations, plan.experiment.name), default=None)

    def _plan(self, experiment: Experiment, claim: Claim, requires: Requirements, once: bool) -> Plan | None:
        """The plan with this experiment; None if it does not serve, or with `once` if it has a row of the claim several times."""
        wanted = claim.tester.rows
        if experiment.network and (not claim.checkpoints or len(experiment.seeds) < requires.seeds):
            return None
        if not experiment.network and claim.checkpoints == "only":
            return None
        # Tasks of a generated language are no GLUE.
        if requires.columns and "data=toy" in experiment.base:
            return None
        if len(set(columns(experiment)).intersection(requires.columns)) < requires.least:
            return None
        named = {name: row for name, row in self.rows_of[experiment.name].items() if not wanted or row in wanted}
        if not set(wanted) <= set(named.values()) or (once and len(named) > len(wanted)):
            return None
        named = _at_rates_read(experiment, named)
        seeds = max(requires.seeds, len(experiment.pretrain_seeds or [0]))
        overridden = {name: [*of_row, *requires.overrides] for name, of_row in experiment.rows.items()}
        key = (experiment.name, *named, *requires.overrides, bool(requires.columns), seeds)
        # A claim and its variants ask for the same runs; counting their operations is most of the time that this takes.
        if key not in self.known:
            self.known[key] = work(replace(experiment, rows=overridden), named, bool(requires.columns), seeds)
        return Plan(experiment, list(named), requires, self.known[key])

    def _row(self, experiment: Experiment, overrides: Sequence[str]) -> str:
        """The row of the claims that these overrides make, if TISA starts from regression; empty if there is none."""
        if not experiment.network:
            return self.row_of.get(scheme(overrides_of("pretrain", experiment, overrides)), "")
        given = [each for each in overrides_of("finetune", experiment, overrides) if each.startswith("change.")]
        values = dict(override.removeprefix("change.").partition("=")[::2] for override in given)
        return row_of(CHANGE | values | {"tisa": int(values.get("tisa", 0))}, ("regression", False)) or ""


def _at_rates_read(experiment: Experiment, named: Mapping[str, str]) -> dict[str, str]:
    """Of the rows that differ in nothing but the rates of positions and convolution, the one that claims are read from."""
    variants: dict[tuple[str, ...], list[str]] = {}
    for name, row in named.items():
        others = [override for override in experiment.rows[name] if key_of(override) not in RATES]
        variants.setdefault((row, *others), []).append(name)
    chosen = [max(names, key=lambda name: precedence(*rates(experiment.rows[name]))) for names in variants.values()]
    return {name: named[name] for name in chosen}

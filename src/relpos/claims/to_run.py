"""What it would take to test a claim of which there are no runs: the command, the runs and their hours.

Of the experiment files that are about a claim (or, where none is, that have its rows once each), the one whose runs cost least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from relpos.claims.claim import Claim
from relpos.claims.hosts import row_of
from relpos.claims.requirements import OfRuns, Requirements
from relpos.claims.scales import Plain
from relpos.tables.estimate import Work, columns, scheme, work
from relpos.tables.experiment import Experiment
from relpos.tables.plan import words_of
from relpos.tables.speeds import Speeds

GPU = 1e14
"""Operations a second beside this machine's: the rate by which the experiment files say what they cost."""
WORTH_A_GPU = 0.1
"""Hours at that rate, from which on they are told."""
CHANGE: Plain = {"positions": "keep", "tisa": 0, "start": "regression", "reused": False}
"""As in conf/finetune.yaml."""


@dataclass(frozen=True)
class Plan:
    """The runs of an experiment that a claim is tested with.

    Args:
        experiment: whose rows.
        rows: their names.
        requires: what the test asks for.
        work: what the runs cost.
    """

    experiment: Experiment
    rows: Sequence[str]
    requires: Requirements
    work: Sequence[Work]

    @property
    def operations(self) -> float:
        return sum(part.operations for part in self.work)

    @property
    def more_seeds(self) -> bool:
        """Whether the file has fewer pre-trainings of a row than are needed."""
        return not self.experiment.start and len(self.experiment.pretrain_seeds or [0]) < self.requires.seeds

    @property
    def command(self) -> str:
        """`relpos reproduce table=length 'rows=[tisa]' pretrain_seeds=2`"""
        given = self.experiment
        words = [f"table={given.name}"]
        if set(self.rows) < set(given.rows):
            words.append(f"'rows=[{','.join(self.rows)}]'")
        if given.tasks and not self.requires.columns:
            words.append("stages=[pretrain]")
        if given.start == "???":
            words.append("pretrained=FOLDER")
        if given.start and not any(word.startswith("data=") for word in given.base):
            words.append("data=files")
        if "data=files" in [*given.base, *words]:
            words.append("data.root=FOLDER")
        words += self.requires.words
        if self.more_seeds:
            words.append(f"pretrain_seeds={self.requires.seeds}")
        return f"relpos reproduce {' '.join(words)}"

    @property
    def runs(self) -> str:
        """`12×256: 2 rows × 3 pre-training seeds × 1,000 steps, 8 tasks × 1 fine-tuning seed of each`"""
        given, tasks = self.experiment, len(self.experiment.tasks)
        networks = [part.run.inputs.get("start", part.run).meaning["size"] for part in self.work]
        sizes = dict.fromkeys(f"{size['layers']}×{size['hidden']}" for size in networks)
        said = f"{' and '.join(sizes)}: {_count(len(self.rows), 'row')}"
        if not given.start:
            steps = sorted({int(part.run.config["steps"]) for part in self.work if part.run.stage == "pretrain"})
            seeds = max(self.requires.seeds, len(given.pretrain_seeds or [0]))
            said += f" × {_count(seeds, 'pre-training seed')} × {' or '.join(f'{n:,}' for n in steps)} steps"
        if self.requires.columns:
            tunings = f"{_count(tasks, 'task')} × {_count(len(given.seeds), 'fine-tuning seed')}"
            said += f" × {tunings}" if given.start else f", {tunings} of each"
        return said

    @property
    def afterwards(self) -> str:
        """What is to be done once the runs are there."""
        if self.requires.order and "shuffle" not in self.experiment.order:
            return "then `relpos order from=FOLDER` of each"
        return f"then {self.requires.afterwards}" if self.requires.afterwards else ""


class ToRun:
    """Says of claims what it would take to test them.

    Args:
        rows: row → the words that make it.
        experiments: the files there are.
    """

    def __init__(self, rows: Mapping[str, Sequence[str]], experiments: Iterable[Experiment]) -> None:
        self.experiments = [given for given in experiments if not given.parameters and given.name[0] != "_"]
        self.schemes = {row: scheme(words) for row, words in rows.items()}
        self.speeds = Speeds(tries=False)
        self.rows_of = {given.name: self._rows_of(given) for given in self.experiments}

    def says(self, claim: Claim) -> str:
        """The cheapest way, in one line; empty where no experiment file has it, and of claims that need no runs.

        >>> from relpos.claims.claim import experiments, load, rows
        >>> [claim] = [claim for claim in load("wennberg2021") if claim.id == "W20"]
        >>> ToRun(rows(), experiments()).says(claim).partition(":")[0]
        "relpos reproduce table=length 'rows=[absolute,absolute_512,fixed,composite,tisa]' pretrain_seeds=2"
        """
        plan = self.plan(claim)
        if plan is None:
            return ""
        rates = [self.speeds.of(part.run)[0] for part in plan.work]
        hours = sum(part.operations / rate for part, rate in zip(plan.work, rates, strict=True)) / 3600
        cost = f"about {_duration(hours)} here{' (guessed)' if self.speeds.guess in rates else ''}"
        if (on_gpu := plan.operations / GPU / 3600) >= WORTH_A_GPU:
            cost += f", {_duration(on_gpu)} at 100 TFLOP/s"
        return "; ".join(filter(None, [f"{plan.command}: {plan.runs}", cost, plan.afterwards]))

    def plan(self, claim: Claim) -> Plan | None:
        """The cheapest one; None where there is none."""
        test = claim.tester
        if not isinstance(test, OfRuns):
            return None
        about = [given for given in self.experiments if claim.id.partition("/")[0] in given.claims]
        plans = [plan for given in about or self.experiments if (plan := self._plan(given, claim, test, once=not about))]
        measured = [plan for plan in plans if not plan.afterwards]
        return min(measured or plans, key=lambda plan: (plan.operations, plan.experiment.name), default=None)

    def _plan(self, given: Experiment, claim: Claim, test: OfRuns, once: bool) -> Plan | None:
        """None where this experiment does not serve; `once`: where it has not every row once."""
        requires, wanted = test.requires, claim.tester.rows
        if given.start and (not claim.hosts or len(given.seeds) < requires.seeds):
            return None
        if not given.start and claim.hosts == "only":
            return None
        if len(set(columns(given)).intersection(requires.columns)) < requires.least:
            return None
        named = {name: row for name, row in self.rows_of[given.name].items() if not wanted or row in wanted}
        if not set(wanted) <= set(named.values()) or (once and len(named) > len(wanted)):
            return None
        seeds = max(requires.seeds, len(given.pretrain_seeds or [0]))
        parts = work(_with(given, requires.words), named, bool(requires.columns), seeds)
        return Plan(given, list(named), requires, parts)

    def _rows_of(self, given: Experiment) -> dict[str, str]:
        """Row of the experiment → row of the claims, empty where these have none like it."""
        if given.start:
            return {name: _changed(words_of("finetune", given, words)) or "" for name, words in given.rows.items()}
        names = {made: row for row, made in self.schemes.items()}
        schemes = {name: scheme(words_of("pretrain", given, words)) for name, words in given.rows.items()}
        return {name: names.get(made, "") for name, made in schemes.items()}


def _changed(words: Iterable[str]) -> str | None:
    """The row of the claims that words of a fine-tuning make of a given network, TISA starting from regression."""
    given = dict(word.removeprefix("change.").partition("=")[::2] for word in words if word.startswith("change."))
    change = CHANGE | given | {"tisa": int(given.get("tisa", 0))}
    return row_of(change, ("regression", False))


def _with(given: Experiment, words: Sequence[str]) -> Experiment:
    """The experiment with these words in each row."""
    return replace(given, rows={name: [*own, *words] for name, own in given.rows.items()}) if words else given


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _duration(hours: float) -> str:
    """In two digits.

    >>> _duration(1934.5), _duration(1.26), _duration(0.04)
    ('1,900 device-hours', '1.3 device-hours', '2.4 device-minutes')
    """
    amount, unit = (hours, "hours") if hours >= 0.1 else (hours * 60, "minutes")
    amount = float(f"{amount:.2g}")
    return f"{amount:,.0f} device-{unit}" if amount >= 10 else f"{amount:g} device-{unit}"

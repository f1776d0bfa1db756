"""The command that makes the runs of a claim which has none, with the cheapest of the experiment files that are about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from relpos.claims.claim import Claim
from relpos.claims.rule import SEVERAL, Test
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


class ToRun:
    """Says how to run a claim whose rows are made by these overrides, with one of these experiment files.

    `tables` has the names of the files that are about a claim.
    """

    def __init__(self, rows: Mapping[str, Sequence[str]], experiments: Sequence[Experiment]) -> None:
        self.tables: dict[str, list[str]] = {}
        for file in experiments:
            for claim in file.claims:
                self.tables.setdefault(claim, []).append(file.name)
        self.row_of = {scheme(overrides): row for row, overrides in rows.items()}
        self.experiments = [file for file in experiments if not (file.parameters or file.properties)]

    def says(self, claim: Claim) -> str:
        """The command; empty if the claim needs no runs, or if no file has its rows and, if it reads some, its columns.

        >>> from relpos.claims.claim import load, rows
        >>> from relpos.tables.experiment import experiments
        >>> [claim] = [claim for claim in load("wennberg2021") if claim.id == "W19"]
        >>> ToRun(rows(), experiments()).says(claim)
        "relpos reproduce table=tisa_toy 'rows=[tisa,tisa_two]'"
        """
        test, name = claim.tester, claim.id.partition("/")[0]
        ways = [(file, rows) for file in self.experiments if name in file.claims and (rows := self._rows(file, claim))]
        # A file that measures the gap by itself comes before one behind which it must be measured.
        file, rows = min(ways, key=lambda way: (_lacks_gap(test, way[0]), _price(*way), way[0].name), default=(None, []))
        if file is None:
            return ""
        return _command(file, rows, test) + "; then `relpos order network=FOLDER` of each" * _lacks_gap(test, file)

    def _rows(self, file: Experiment, claim: Claim) -> list[str]:
        """The rows of a file with which a claim can be tested; none where the file does not serve."""
        test = claim.tester
        if (file.network and not claim.checkpoints) or (claim.checkpoints == "only" and not file.network):
            return []
        # Tasks of a generated language are no GLUE.
        tasks = [] if "data=toy" in file.base else file.tasks
        columns = {column for task in tasks for column in node_of(task).get("columns", [])}
        if len(columns.intersection(test.scores)) < min(test.rule.least, len(test.scores)):
            return []
        named = {name: row for name, overrides in file.rows.items() if (row := self.row(file, overrides)) in test.rows}
        if set(named.values()) < set(test.rows):
            return []
        return read_at(named, file.rows.__getitem__, lambda name: _rates(file.rows[name]))

    def row(self, file: Experiment, overrides: Sequence[str]) -> str:
        """The row of the claims that these overrides of a file make, if TISA starts from regression; empty if there is none."""
        if not file.network:
            return self.row_of.get(scheme(overrides_of("pretrain", file, overrides)), "")
        given = [each for each in overrides_of("finetune", file, overrides) if each.startswith("change.")]
        change = dict(override.removeprefix("change.").partition("=")[::2] for override in given)
        return row_of(CHANGE | change | {"tisa": int(change.get("tisa", 0))}, ("regression", False)) or ""


def _lacks_gap(test: Test, file: Experiment) -> bool:
    return test.column == "order" and "shuffle" not in file.order


def _seeds(file: Experiment) -> int:
    """Pre-trainings of each row. Those that the file has may be too few to show how much they differ."""
    return max(SEVERAL, len(file.pretrain_seeds or [0]))


def _price(file: Experiment, rows: Sequence[str]) -> int:
    """About how many weights times tokens the pre-trainings take; nothing where a given network is fine-tuned."""
    if file.network:
        return 0
    overrides = [overrides_of("pretrain", file, file.rows[row]) for row in rows]
    trained = [_values(tuple(one for one in some if key_of(one).split(".")[0] in TRAINING)) for some in overrides]
    tokens = [config["steps"] * config["batch"] * config["length"] for config in trained]
    weights = [config["size"]["layers"] * config["size"]["hidden"] ** 2 for config in trained]
    return _seeds(file) * sum(a * b for a, b in zip(tokens, weights, strict=True))


def _command(file: Experiment, rows: Sequence[str], test: Test) -> str:
    """`relpos reproduce table=length 'rows=[tisa]' pretrain_seeds=2`"""
    overrides = [f"table={file.name}"]
    if set(rows) < set(file.rows):
        overrides.append(f"'rows=[{','.join(rows)}]'")
    if file.tasks and not test.scores:
        overrides.append("stages=[pretrain]")
    if file.network == "???":
        # Words in capitals are for the user to fill in: where networks and texts lie, no experiment file knows.
        overrides.append("network=FOLDER")
    if file.network and not any(override.startswith("data=") for override in file.base):
        overrides.append("data=files")
    if "data=files" in [*file.base, *overrides]:
        overrides.append("data.root=FOLDER")
    if not file.network and _seeds(file) > len(file.pretrain_seeds or [0]):
        overrides.append(f"pretrain_seeds={_seeds(file)}")
    return f"relpos reproduce {' '.join(overrides)}"


def _rates(overrides: Iterable[str]) -> tuple[Any, Any]:
    given = tuple(each for each in overrides if key_of(each) in RATES)
    return rates_of(values("pretrain", given, ("recipe",))["recipe"])


@cache
def _values(overrides: tuple[str, ...]) -> dict[str, Any]:
    # The experiment files repeat each other's overrides, and `relpos claims` asks about all of them.
    return values("pretrain", overrides, TRAINING)

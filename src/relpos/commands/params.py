"""`relpos params`: the parameters of a network, described or on disk; with `table=chang2021`, a paper's counts beside ours."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, dataclass
from typing import Unpack

from rich.box import SIMPLE_HEAD
from rich.table import Table

from relpos.config.compose import compose
from relpos.config.conf import shipped
from relpos.config.schema import NetworkKeys
from relpos.errors import RelposError, nearest
from relpos.progress import plain_console
from relpos.runs.model import counted, counted_without_memory
from relpos.runs.networks import resolve
from relpos.train.described import network as build_described
from relpos.train.network import without_memory
from relpos.train.weights import read_model_config

_SUFFIX = "_parameters.csv"


def params(table: str | None, network: str | None, **described: Unpack[NetworkKeys]) -> str:
    """The counts as JSON."""
    if table is not None:
        return show(table)
    if network is None:
        numbers = counted_without_memory(described)
    else:
        with without_memory():  # with its head, which the description of a network to be trained does not have
            numbers = counted(build_described(read_model_config(resolve(network).path)))
    return json.dumps(numbers, ensure_ascii=False)


@dataclass(frozen=True)
class Line:
    """A row of a paper: `ours` and `printed` are numbers of parameters, of the whole model or of the position scheme (`counts`).

    `printed` has the paper's unit and precision: chang2021 prints millions to two decimals. `exact` is the number that the authors'
    own code gives, if it is known.
    """

    row: str
    overrides: str
    counts: str
    ours: int
    printed: float
    decimals: int
    exact: int | None
    note: str

    @property
    def difference(self) -> float:
        """Ours, rounded as the paper rounds, minus the printed figure; in the paper's unit."""
        shown = round(self.ours / 1e6, self.decimals) if self.decimals else self.ours
        # Rounded twice, because 13.43 − 13.42 is 0.009999… in floating point.
        return round(shown - self.printed, self.decimals)


def papers() -> list[str]:
    return sorted(file.name.removesuffix(_SUFFIX) for file in (shipped("experiments") / "printed").glob("*" + _SUFFIX))


def lines(paper: str) -> list[Line]:
    """Every row of the paper with its printed count and ours, which is counted on the network itself, built without memory.

    Raises:
        RelposError: there is no such paper.
    """
    path = shipped("experiments") / "printed" / f"{paper}{_SUFFIX}"
    if paper not in papers():
        raise RelposError(f"table={paper}: no printed parameter counts.{nearest(paper, papers())}")
    result = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            # On the network itself and not by formulas, which might repeat a mistake of the paper.
            ours = counted_without_memory(compose("params", row["overrides"].split()))[row["counts"]]
            exact = int(row["exact"]) if row["exact"] else None
            texts = row["row"], row["overrides"], row["counts"]
            result.append(Line(*texts, ours, float(row["printed"]), int(row["decimals"]), exact, row["note"]))
    return result


def show(paper: str) -> str:
    """Prints the table on stderr, for reading; returns it as JSON."""
    rows = lines(paper)
    table = Table(box=SIMPLE_HEAD, title=f"Parameters of {paper}")
    for name in ("row", "overrides", "ours", "printed", "difference", "note"):
        table.add_column(name, justify="left" if name in ("row", "overrides", "note") else "right", overflow="fold")
    for line in rows:
        printed = f"{line.printed:.{line.decimals}f}M" if line.decimals else f"{line.printed:,.0f}"
        difference = f"{line.difference:+,.{line.decimals}f}" if line.difference else "0"
        table.add_row(line.row, line.overrides, f"{line.ours:,}", printed, difference, line.note)
    plain_console(stderr=True).print(table)
    return json.dumps([asdict(line) | {"difference": line.difference} for line in rows], ensure_ascii=False)

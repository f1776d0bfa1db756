"""`relpos params`: the parameters of a network, described or on disk; with `table=chang2021`, a
paper's counts beside ours."""

from __future__ import annotations

import csv
import json
from typing import Unpack

from rich.box import SIMPLE_HEAD
from rich.table import Table

from relpos.config.compose import composed, resolved
from relpos.config.conf import shipped
from relpos.config.schema import NetworkKeys
from relpos.errors import RelposError, nearest
from relpos.model.architecture import Architecture
from relpos.model.build import counted
from relpos.progress import plain_console
from relpos.ranges import parsed
from relpos.readers import Plain
from relpos.runs.networks import resolve
from relpos.train.weights import read_architecture

_SUFFIX = "_parameters.csv"


def params(table: str | None, network: str | None, **described: Unpack[NetworkKeys]) -> str:
    """The counts as JSON."""
    if table is not None:
        return show(table)
    if network is None:
        architecture = parsed(Architecture, described)
    else:  # with the head that the folder has
        architecture = read_architecture(resolve(network).path)
    return json.dumps(counted(architecture), ensure_ascii=False)


def papers() -> list[str]:
    return sorted(
        file.name.removesuffix(_SUFFIX)
        for file in (shipped("experiments") / "printed").glob("*" + _SUFFIX)
    )


def lines(paper: str) -> list[Plain]:
    """The rows of a paper's table of parameters.

    `ours` and `printed` are numbers of parameters, of the whole model or of the position scheme
    (`counts`). `printed` has the paper's unit and precision: chang2021 prints millions to two
    decimals. `difference` is ours, rounded as the paper rounds, minus the printed figure, in the
    paper's unit. `exact` is the number of the authors' own code, if it is known.

    Raises:
        RelposError: there is no such paper.
    """
    path = shipped("experiments") / "printed" / f"{paper}{_SUFFIX}"
    if paper not in papers():
        raise RelposError(f"table={paper}: no printed parameter counts.{nearest(paper, papers())}")
    result = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            # Counted on a network, not by formulas, which might repeat a mistake of the paper.
            described = resolved(composed("params", row["overrides"].split()))
            ours = counted(parsed(Architecture, described))[row["counts"]]
            printed = float(row["printed"])
            decimals = int(row["decimals"])
            rounded = round(ours / 1e6, decimals) if decimals else ours
            result.append(
                {key: row[key] for key in ("row", "overrides", "counts")}
                | {
                    "ours": ours,
                    "printed": printed,
                    "decimals": decimals,
                    "exact": int(row["exact"]) if row["exact"] else None,
                    "note": row["note"],
                    # Rounded twice, because 13.43 − 13.42 is 0.009999… in floating point.
                    "difference": round(rounded - printed, decimals),
                }
            )
    return result


def show(paper: str) -> str:
    """Prints the table on stderr and returns it as JSON."""
    rows = lines(paper)
    table = Table(box=SIMPLE_HEAD, title=f"Parameters of {paper}")
    for name in ("row", "overrides", "ours", "printed", "difference", "note"):
        table.add_column(
            name,
            justify="left" if name in ("row", "overrides", "note") else "right",
            overflow="fold",
        )
    for line in rows:
        decimals = line["decimals"]
        printed = f"{line['printed']:.{decimals}f}M" if decimals else f"{line['printed']:,.0f}"
        difference = f"{line['difference']:+,.{decimals}f}" if line["difference"] else "0"
        table.add_row(
            line["row"],
            line["overrides"],
            f"{line['ours']:,}",
            printed,
            difference,
            line["note"],
        )
    plain_console(stderr=True).print(table)
    return json.dumps(rows, ensure_ascii=False)

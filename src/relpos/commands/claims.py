"""`relpos claims`: what the papers claim, tested with whatever runs there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relpos.errors import RelposError, nearest
from relpos.tables.verdict import FAILS, HOLDS, NOT_RUN, UNDECIDED

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from relpos.claims.claim import Claim
    from relpos.claims.finding import Finding
    from relpos.claims.scales import Scales

COLOURS = {HOLDS: "green", FAILS: "red", UNDECIDED: "yellow", NOT_RUN: "dim"}


def claims(cfg: DictConfig) -> str:
    """`relpos claims`: prints each claim with its verdicts; writes them to a file and returns its path.

    Args:
        cfg: `paper`, `ids`.

    Raises:
        RelposError: there is no such paper or claim.
    """
    from relpos.claims import claim as claim_files
    from relpos.claims import scales
    from relpos.files import write_json
    from relpos.runs.config import names
    from relpos.runs.run import runs_root

    wanted = chosen(claim_files.load(str(cfg.paper)), names(cfg.ids))
    rows = claim_files.rows()
    there = scales.read(rows)
    tables = claim_files.tables_of()
    found = []
    for claim in wanted:  # each is printed as soon as it is decided: those about weights load many models
        found.append(evaluate(claim, there, rows, tables.get(claim.id, [])))
        _show(found[-1])
    _sum_up(found, there)
    path = runs_root() / "claims" / f"{'-'.join(claim.id for claim in wanted) if cfg.ids is not None else cfg.paper}.json"
    write_json(path, {"paper": str(cfg.paper), "claims": found})
    return str(path)


def chosen(wanted: list[Claim], ids: list[str] | None) -> list[Claim]:
    """The claims of these ids; None: all.

    Raises:
        RelposError: there is no such claim.
    """
    known = [claim.id for claim in wanted]
    for name in ids or ():
        if name not in known:
            raise RelposError(f"ids: unknown claim {name!r}.{nearest(str(name), known)}")
    return [claim for claim in wanted if ids is None or claim.id in ids]


def evaluate(claim: Claim, there: Scales, rows: dict[str, list[str]], tables: list[str]) -> dict[str, Any]:
    """Plain values: `id`, `says`, `source`, `printed`, `test`, `rows` (with their words), `tables`, `findings`, and `verdict`: that
    of the largest scale at which it was tested, not run where there is none.

    Raises:
        RelposError: the test names a row that `rows.yaml` does not have.
    """
    test = claim.tester
    for row in test.rows:
        if row not in rows:
            raise RelposError(f"claim {claim.id}: unknown row {row!r}.{nearest(row, rows)}")
    findings: list[Finding] = test.findings(there)
    return {
        "id": claim.id,
        "says": claim.says,
        "source": claim.source,
        "printed": claim.printed,
        "test": test.says,
        "rows": {row: rows[row] for row in test.rows},
        "tables": tables,
        "findings": [{"verdict": one.verdict, "figures": one.figures, "scale": one.scale} for one in findings],
        "verdict": next((one.verdict for one in reversed(findings) if one.verdict != NOT_RUN), NOT_RUN),
    }


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)

    def line(*parts: tuple[str, str]) -> None:
        console.print(Text.assemble(*parts), soft_wrap=True)

    line((f"{found['id']}  ", "bold"), (found["verdict"], f"bold {COLOURS[found['verdict']]}"), (f"  {found['says']}", ""))
    source = f"{found['source']}; printed: {found['printed']}" if found["printed"] else found["source"]
    line((f"     {source}", "dim"))
    line(("     test  ", "dim"), (found["test"], ""))
    if found["rows"]:
        tables = f"  (tables {', '.join(found['tables'])})" if found["tables"] else ""
        line(
            ("     runs  ", "dim"),
            ("; ".join(f"{row}: {' '.join(words)}" for row, words in found["rows"].items()), ""),
            (tables, "dim"),
        )
    for one in found["findings"]:
        line((f"     {one['verdict']:<9} ", COLOURS[one["verdict"]]), (f"{one['scale']}: {one['figures']}", ""))
    if not found["findings"]:
        line((f"     {NOT_RUN:<9} ", "dim"), ("no finished runs of these rows at any scale", ""))


def _sum_up(found: list[dict[str, Any]], there: Scales) -> None:
    from collections import Counter

    counts = Counter(one["verdict"] for one in found)
    older = f"; {there.older} runs of older code were left out" if there.older else ""
    print(f"{len(found)} claims: {', '.join(f'{count} {verdict}' for verdict, count in counts.most_common())}{older}")

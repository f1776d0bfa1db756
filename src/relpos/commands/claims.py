"""`relpos claims`: what the papers claim, tested with all finished runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from relpos.errors import refuse_unknown
from relpos.progress import plain_console
from relpos.ranges import Names
from relpos.results.statistics import FAILS, HOLDS, NOT_HERE, NOT_RUN, UNDECIDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from relpos.claims.claim import Claim
    from relpos.claims.to_run import ToRun
    from relpos.claims.verdict import Verdict
    from relpos.results.scale import Scales

COLOURS = {HOLDS: "green", FAILS: "red", UNDECIDED: "yellow", NOT_HERE: "yellow", NOT_RUN: "dim"}


def claims(paper: str, ids: Names | None, network: Names | None) -> str:
    """`relpos claims`: prints each claim with its verdicts; writes them to a file and returns its path.

    Raises:
        RelposError: there is no such paper, claim or checkpoint.
    """
    from relpos.claims.claim import load
    from relpos.files import write_json
    from relpos.runs.run import runs_root

    content = _tested_page(chosen(load(paper), ids), network or ())
    _show_page(content)
    name = "-".join(ids or [paper]).replace("/", "_")
    path = runs_root() / "claims" / f"{name}.json"
    write_json(path, {"paper": paper} | content)
    return str(path)


def table_page(ids: list[str], primary: str) -> str:
    """The page of a table's claims as text: the variants in the primary measure, the other variants, then the claims themselves."""
    import io

    from relpos.claims.claim import load

    wanted = chosen(load("all"), ids)
    # Sorted is stable: within the primary variants, the others and the claims themselves, ids stay in order.
    wanted.sort(key=lambda claim: [claim.measure == primary, claim.measure is not None].count(False))
    content, text = _tested_page(wanted), io.StringIO()
    # So wide that no line is wrapped: the page is committed beside the table, and its changes are read as a diff.
    _show_page(content, plain_console(file=text, highlight=False, width=1_000))
    return text.getvalue()


def _tested_page(wanted: list[Claim], networks: Iterable[str] = ()) -> dict[str, Any]:
    """The `page` of these claims, tested with all finished runs."""
    from relpos.claims.claim import rows, scales
    from relpos.claims.to_run import ToRun
    from relpos.tables.experiment import experiments

    return page(wanted, scales(networks), ToRun(rows(), experiments()))


def chosen(known: list[Claim], ids: list[str] | None) -> list[Claim]:
    """The claims with these ids, each with its variants; None: all.

    Raises:
        RelposError: there is no such claim.
    """
    of_ids = [claim.id for claim in known]
    for name in ids or ():
        refuse_unknown("ids: unknown claim", name, of_ids)
    return [claim for claim in known if ids is None or claim.id in ids or claim.id.partition("/")[0] in ids]


def page(claims: list[Claim], runs: Scales, to_run: ToRun | None = None) -> dict[str, Any]:
    """Plain values: `claims`, `tests` (how many were made), `older` and `pilots` (runs of older code, and of tables in
    which rates were chosen, that were left out).

    A claim has `id`, `says`, `source`, `printed`, `restated`, `test`, `rows` (with their overrides), `tables`, `findings` (one for
    each scale, corrected for the tests of its family), `verdict`, `word` and `scale` (of the largest scale that decides)
    and `takes` (what it would take to run a claim that is not run at any scale).

    Args:
        claims: those of the page. All claims of their papers in their measures are tested, because these are the families.
        runs: the finished runs.
        to_run: says how to run a claim, and which tables are about it; None: `takes` and `tables` stay empty.

    Raises:
        RelposError: a test names a row that `rows.yaml` does not have.
    """
    from relpos.claims.claim import families
    from relpos.claims.claim import rows as known_rows
    from relpos.claims.verdict import adjusted, headline
    from relpos.progress import tracked

    rows = known_rows()
    found: dict[str, list[Verdict]] = {}
    tests = 0
    for family in families(claims):
        # With runs this takes a while: some rules load the networks of many.
        by_claim = [_tested(claim, runs, rows) for claim in (tracked(family, "testing claims") if runs.known else family)]
        flat = [verdict for verdicts in by_claim for verdict in verdicts]
        corrected = iter(adjusted(flat))
        # Corrected as one family, then dealt out again to the claims that they came from.
        found |= {claim.id: [next(corrected) for _ in verdicts] for claim, verdicts in zip(family, by_claim, strict=True)}
        tests += sum(verdict.p is not None for verdict in flat)
    heads = {claim.id: headline(found[claim.id]) for claim in claims}
    return {
        "claims": [
            {
                "id": claim.id,
                "says": claim.says,
                "source": claim.source,
                "printed": claim.printed,
                "restated": claim.restated,
                "test": claim.tester.says,
                "rows": {row: rows[row] for row in claim.tester.rows},
                "tables": to_run.tables.get(claim.id, []) if to_run else [],
                "findings": [asdict(verdict) | {"word": verdict.word} for verdict in found[claim.id]],
                "verdict": (head := heads[claim.id]).verdict,
                "word": head.word,
                "scale": head.scale,
                "takes": to_run.says(claim) if to_run and head.verdict == NOT_RUN else "",
            }
            for claim in claims
        ],
        "tests": tests,
        "older": runs.older,
        "pilots": runs.pilots,
    }


def _tested(claim: Claim, runs: Scales, rows: dict[str, list[str]]) -> list[Verdict]:
    for row in claim.tester.rows:
        refuse_unknown(f"claim {claim.id}: unknown row", row, rows)
    return claim.verdicts(runs)


def _show_page(content: dict[str, Any], console: Console | None = None) -> None:
    """Prints the claims, then how many hold and how many tests were made."""
    console = console or plain_console(highlight=False)
    for claim in content["claims"]:
        _show(claim, console)
    for text in _sums(content):
        console.print(text, markup=False, soft_wrap=True)


def _show(claim: dict[str, Any], console: Console) -> None:
    from rich.text import Text

    def line(*parts: tuple[str, str]) -> None:
        console.print(Text.assemble(*parts), soft_wrap=True)

    where = f" ({claim['scale']})" if claim["scale"] else ""
    line(
        (f"{claim['id']}  ", "bold"),
        (claim["word"], f"bold {COLOURS[claim['verdict']]}"),
        (where, "dim"),
        (f"  {claim['says']}", ""),
    )
    if "/" in claim["id"] and not claim["findings"]:
        _show_takes(claim["takes"], console)
        return
    source = f"{claim['source']}; printed: {claim['printed']}" if claim["printed"] else claim["source"]
    line((f"     {source}", "dim"))
    line(("     test  ", "dim"), (claim["test"], ""))
    if claim["restated"]:
        line(("     restated: ", "dim"), (claim["restated"], "dim"))
    if claim["rows"]:
        tables = f"  (tables {', '.join(claim['tables'])})" if claim["tables"] else ""
        line(
            ("     runs  ", "dim"),
            ("; ".join(f"{row}: {' '.join(overrides)}" for row, overrides in claim["rows"].items()), ""),
            (tables, "dim"),
        )
    for finding in claim["findings"]:
        figures = f"{finding['scale']}: {finding['figures']}"
        line((f"     {finding['word']:<9} ", COLOURS[finding["verdict"]]), (figures, ""))
        if finding["takes"]:
            line((f"               to decide it: {finding['takes']}", "dim"))
    if not claim["findings"]:
        line((f"     {NOT_RUN:<9} ", "dim"), ("no finished runs of these rows at any scale", ""))
    _show_takes(claim["takes"], console)


def _show_takes(takes: str, console: Console) -> None:
    if takes:
        console.print(f"     to run it {takes}", style="dim", markup=False, soft_wrap=True)


def _sums(content: dict[str, Any]) -> Iterator[str]:
    """Lines that say how many claims, and how many variants, hold, fail, …, and how many tests were made."""
    from collections import Counter

    for kind, is_variant in (("claims", False), ("variants (loss, order)", True)):
        counts = Counter(claim["verdict"] for claim in content["claims"] if ("/" in claim["id"]) == is_variant)
        if counts:
            yield f"{counts.total()} {kind}: {', '.join(f'{count} {verdict}' for verdict, count in counts.most_common())}"
    tests = content["tests"]
    yield (
        f"{tests} tests were made; by Benjamini and Hochberg's method at most 5 % of what holds or fails is expected to be false, "
        "among the claims of one paper in one measure at one scale"
    )
    if content["older"]:
        yield f"{content['older']} runs of older code were left out"
    if content["pilots"]:
        yield f"{content['pilots']} runs were left out, because a table in which rates were chosen (tuned:) trains with their seed"

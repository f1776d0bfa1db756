"""`relpos claims`: what the papers claim, tested with all finished runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from io import StringIO
from typing import TYPE_CHECKING, Any

from relpos.claims import claim as claim_files
from relpos.claims.claim import Claim, families, load
from relpos.claims.verdict import NOT_TESTED, Verdict, adjusted, headline
from relpos.errors import plural, refuse_unknown
from relpos.files import write_json
from relpos.progress import plain_console, tracked
from relpos.ranges import Names
from relpos.results.scale import Scales
from relpos.results.statistics import FAILS, HOLDS, NOT_HERE, NOT_RUN, UNDECIDED
from relpos.runs.run import runs_root
from relpos.tables.experiment import Experiment, experiments

if TYPE_CHECKING:
    from rich.console import Console

COLOURS = {
    HOLDS: "green",
    FAILS: "red",
    UNDECIDED: "yellow",
    NOT_HERE: "yellow",
    NOT_RUN: "dim",
    NOT_TESTED: "dim",
}


def claims(paper: str, ids: Names | None) -> str:
    """`relpos claims`: prints each claim with its verdicts; writes them to a file and returns its path.

    Raises:
        RelposError: there is no such paper or claim.
    """
    wanted = chosen(load(paper), ids)
    content = page(wanted, claim_files.scales(), experiments())
    _show_page(content, plain_console(highlight=False))
    name = "-".join(ids or [paper]).replace("/", "_")
    path = runs_root() / "claims" / f"{name}.json"
    write_json(path, {"paper": paper} | content)
    return str(path)


def table_page(ids: list[str], primary: str) -> str:
    """The page of a table's claims as text: the variants in the primary measure, the other variants, then the claims themselves."""
    # Sorted is stable: within the primary variants, the others and the claims themselves, ids stay in order.
    wanted = sorted(chosen(load("all"), ids), key=lambda claim: (claim.measure is None, claim.measure != primary))
    text = StringIO()
    # So wide that no line is wrapped: the page is committed beside the table, and its changes are read as a diff.
    console = plain_console(file=text, highlight=False, width=1_000)
    _show_page(page(wanted, claim_files.scales(), experiments()), console)
    return text.getvalue()


def chosen(known: list[Claim], ids: list[str] | None) -> list[Claim]:
    """The claims with these ids, each with its variants; None: all.

    Raises:
        RelposError: there is no such claim.
    """
    of_ids = [claim.id for claim in known]
    for name in ids or ():
        refuse_unknown("ids: unknown claim", name, of_ids)
    return [claim for claim in known if ids is None or claim.id in ids or claim.id.partition("/")[0] in ids]


def page(wanted: list[Claim], runs: Scales, files: Iterable[Experiment] = ()) -> dict[str, Any]:
    """Plain values: `claims`, `tests` (how many were made), `older` and `pilots` (runs of older code, and of tables in
    which rates were chosen, that were left out).

    A claim has its texts, `test`, `rows` (with their overrides), `tables` (those of the experiment `files` that are about it),
    `findings` (one for each scale, corrected for the tests of its family), `verdict`, `word` and `scale` (of the largest scale
    that decides) and `takes` (the command that makes its runs, if it is not run at any scale).

    Raises:
        RelposError: a test names a row that `rows.yaml` does not have.
    """
    rows = claim_files.rows()
    tables = [(claim, file.name) for file in files for claim in file.claims]
    found: dict[str, list[Verdict]] = {}
    tests = 0
    # All claims of their papers in their measures are tested, because these are the families.
    for family in families(wanted):
        # With runs this takes a while: some networks are measured.
        shown = tracked(family, "testing claims") if runs.pretrained else family
        by_claim = {claim.id: claim.verdicts(runs) for claim in shown}
        flat = [verdict for verdicts in by_claim.values() for verdict in verdicts]
        corrected = iter(adjusted(flat))
        # Corrected as one family, then dealt out again to the claims that they came from.
        found |= {name: [next(corrected) for _ in verdicts] for name, verdicts in by_claim.items()}
        tests += sum(verdict.p is not None for verdict in flat)
    return {
        "claims": [
            _entry(claim, found[claim.id], rows) | {"tables": [table for of_table, table in tables if of_table == claim.id]}
            for claim in wanted
        ],
        "tests": tests,
        "older": runs.older,
        "pilots": runs.pilots,
    }


def _entry(claim: Claim, found: list[Verdict], rows: dict[str, list[str]]) -> dict[str, Any]:
    """A claim on the page."""
    judgement = claim.judgement
    needed = judgement.rows if judgement else ()
    for row in needed:
        refuse_unknown(f"claim {claim.id}: unknown row", row, rows)
    head = headline(found, claim.paper != "across")
    if judgement is None:
        head = Verdict(NOT_TESTED, "")
    texts = ("id", "says", "source", "printed", "restated", "remark", "not_tested")
    return {key: getattr(claim, key) for key in texts} | {
        "test": judgement.says if judgement else "",
        "rows": {row: rows[row] for row in needed},
        "findings": [asdict(verdict) | {"word": verdict.word} for verdict in found],
        "verdict": head.verdict,
        "word": head.word,
        "scale": head.scale,
        "takes": f"relpos reproduce {claim.run}" if claim.run and head.verdict == NOT_RUN else "",
    }


def _show_page(content: dict[str, Any], console: Console) -> None:
    """Prints the claims, then how many hold and how many tests were made."""
    from rich.text import Text

    for claim in content["claims"]:
        for line in _lines(claim):
            console.print(Text.assemble(*line), soft_wrap=True)
    for text in _sums(content):
        console.print(text, markup=False, soft_wrap=True)


def _lines(claim: dict[str, Any]) -> Iterator[list[str | tuple[str, str]]]:
    """The lines of a claim, as texts with their styles. Of a variant without findings there is the first alone, and the command."""
    colour, findings = COLOURS[claim["verdict"]], claim["findings"]
    where = f" ({claim['scale']})" if claim["scale"] else ""
    yield [(f"{claim['id']}  ", "bold"), (claim["word"], f"bold {colour}"), (where, "dim"), f"  {claim['says']}"]
    if findings or "/" not in claim["id"]:
        source = f"{claim['source']}; printed: {claim['printed']}" if claim["printed"] else claim["source"]
        yield [(f"     {source}", "dim")]
        if claim["test"]:
            yield [("     test  ", "dim"), claim["test"]]
        for key in ("restated", "remark", "not_tested"):
            if claim[key]:
                yield [(f"     {key.replace('_', ' ')}: {claim[key]}", "dim")]
        if claim["rows"]:
            rows = "; ".join(f"{row}: {' '.join(overrides)}" for row, overrides in claim["rows"].items())
            tables = f"  (tables {', '.join(claim['tables'])})" if claim["tables"] else ""
            yield [("     runs  ", "dim"), rows, (tables, "dim")]
        for finding in findings:
            yield [(f"     {finding['word']:<9} ", COLOURS[finding["verdict"]]), f"{finding['scale']}: {finding['figures']}"]
            if finding["takes"]:
                yield [(f"               to decide it: {finding['takes']}", "dim")]
        if claim["test"] and not findings:
            yield [(f"     {NOT_RUN:<9} ", "dim"), "no finished runs of these rows at any scale"]
    if claim["takes"]:
        yield [(f"     to run it {claim['takes']}", "dim")]


def _sums(content: dict[str, Any]) -> Iterator[str]:
    """Lines that say how many claims, and how many variants, hold, fail, …, and how many tests were made."""
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
        yield f"{plural(content['older'], 'run')} of older code {'was' if content['older'] == 1 else 'were'} left out"
    if content["pilots"]:
        left = f"{plural(content['pilots'], 'run')} {'was' if content['pilots'] == 1 else 'were'} left out"
        yield f"{left}, because a table in which rates were chosen (tuned:) trains with their seed"

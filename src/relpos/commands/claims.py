"""`relpos claims`: the papers' claims, tested with all finished runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from io import StringIO
from itertools import islice
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
    """`relpos claims`: prints each claim with its verdicts; writes them to a file and returns its
    path.

    Raises:
        RelposError: there is no such paper or claim.
    """
    chosen_claims = chosen(load(paper), ids)
    content = page(chosen_claims, claim_files.scales(), experiments())
    _show_page(content, plain_console(highlight=False))
    name = "-".join(ids or [paper]).replace("/", "_")
    path = runs_root() / "claims" / f"{name}.json"
    write_json(path, {"paper": paper} | content)
    return str(path)


def table_page(ids: list[str], primary: str) -> str:
    """The page of a table's claims as text: the variants in the primary measure, the other
    variants, then the claims themselves."""

    def rank(claim: Claim) -> tuple[bool, bool]:
        return claim.measure is None, claim.measure != primary

    # Sorting is stable: claims of equal rank stay in the order of their ids.
    chosen_claims = sorted(chosen(load("all"), ids), key=rank)
    text = StringIO()
    # Lines are not wrapped, because the page is committed beside the table, and its changes are
    # read as a diff.
    console = plain_console(file=text, highlight=False, width=1_000)
    _show_page(page(chosen_claims, claim_files.scales(), experiments()), console)
    return text.getvalue()


def chosen(claims: list[Claim], ids: list[str] | None) -> list[Claim]:
    """The claims with these ids, each with its variants; None: all.

    Raises:
        RelposError: there is no such claim.
    """
    of_ids = [claim.id for claim in claims]
    for name in ids or ():
        refuse_unknown("ids: unknown claim", name, of_ids)
    return [
        claim
        for claim in claims
        if ids is None or claim.id in ids or claim.id.partition("/")[0] in ids
    ]


def page(
    chosen_claims: list[Claim], runs: Scales, files: Iterable[Experiment] = ()
) -> dict[str, Any]:
    """The content of the page as plain values.

    `claims` has the claims; `tests` is the number of tests; `older` and `pilots` are the numbers of
    runs left out because today's code would not make them, and because rates were chosen with their
    seed.

    A claim has its texts, `test`, `rows` (with their overrides), `tables` (those of the experiment
    `files` that are about it), `findings` (one for each scale, corrected for the tests of its
    family), `verdict`, `word` and `scale` (of the largest scale that decides) and `takes` (the
    command that makes its runs, if it is not run at any scale).

    Raises:
        RelposError: a test names a row that `rows.yaml` does not have.
    """
    rows = claim_files.rows()
    tables = [(claim, file.name) for file in files for claim in file.claims]
    verdicts_of: dict[str, list[Verdict]] = {}
    tests = 0
    # The other claims of a family are tested, too, because chance is corrected for in the whole
    # family.
    for family in families(chosen_claims):
        # With runs this takes a while, because some networks are measured.
        family_shown = tracked(family, "testing claims") if runs.pretrained else family
        by_claim = {claim.id: claim.verdicts(runs) for claim in family_shown}
        flat = [verdict for verdicts in by_claim.values() for verdict in verdicts]
        corrected = iter(adjusted(flat))
        # The verdicts of the family go back to their claims.
        for name, verdicts in by_claim.items():
            verdicts_of[name] = list(islice(corrected, len(verdicts)))
        tests += sum(verdict.p is not None for verdict in flat)
    entries = []
    for claim in chosen_claims:
        about_it = [table for of_table, table in tables if of_table == claim.id]
        entries.append(_entry(claim, verdicts_of[claim.id], rows) | {"tables": about_it})
    return {"claims": entries, "tests": tests, "older": runs.older, "pilots": runs.pilots}


def _entry(claim: Claim, verdicts: list[Verdict], rows: dict[str, list[str]]) -> dict[str, Any]:
    """A claim on the page."""
    judgement = claim.judgement
    needed = judgement.rows if judgement else ()
    for row in needed:
        refuse_unknown(f"claim {claim.id}: unknown row", row, rows)
    head = headline(verdicts, claim.paper != "across")
    if judgement is None:
        head = Verdict(NOT_TESTED, "")
    texts = ("id", "says", "source", "printed", "restated", "remark", "not_tested")
    return {key: getattr(claim, key) for key in texts} | {
        "test": judgement.says if judgement else "",
        "rows": {row: rows[row] for row in needed},
        "findings": [asdict(verdict) | {"word": verdict.word} for verdict in verdicts],
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
    """The lines of a claim, as texts with their styles; for a variant without findings the first
    line and the command."""
    colour, findings = COLOURS[claim["verdict"]], claim["findings"]
    where = f" ({claim['scale']})" if claim["scale"] else ""
    yield [
        (f"{claim['id']}  ", "bold"),
        (claim["word"], f"bold {colour}"),
        (where, "dim"),
        f"  {claim['says']}",
    ]
    if findings or "/" not in claim["id"]:
        source = (
            f"{claim['source']}; printed: {claim['printed']}"
            if claim["printed"]
            else claim["source"]
        )
        yield [(f"     {source}", "dim")]
        if claim["test"]:
            yield [("     test  ", "dim"), claim["test"]]
        for key in ("restated", "remark", "not_tested"):
            if claim[key]:
                yield [(f"     {key.replace('_', ' ')}: {claim[key]}", "dim")]
        if claim["rows"]:
            rows = "; ".join(
                f"{row}: {' '.join(overrides)}" for row, overrides in claim["rows"].items()
            )
            tables = f"  (tables {', '.join(claim['tables'])})" if claim["tables"] else ""
            yield [("     runs  ", "dim"), rows, (tables, "dim")]
        for finding in findings:
            yield [
                (f"     {finding['word']:<9} ", COLOURS[finding["verdict"]]),
                f"{finding['scale']}: {finding['figures']}",
            ]
            if finding["takes"]:
                yield [(f"               to decide it: {finding['takes']}", "dim")]
        if claim["test"] and not findings:
            yield [(f"     {NOT_RUN:<9} ", "dim"), "no finished runs of these rows at any scale"]
    if claim["takes"]:
        yield [(f"     to run it {claim['takes']}", "dim")]


def _sums(content: dict[str, Any]) -> Iterator[str]:
    """Lines with the numbers of claims and variants that hold, fail, …, and with the number of
    tests."""
    for kind, is_variant in (("claims", False), ("variants (loss, order)", True)):
        counts = Counter(
            claim["verdict"] for claim in content["claims"] if ("/" in claim["id"]) == is_variant
        )
        if counts:
            yield f"{counts.total()} {kind}: {', '.join(f'{count} {verdict}' for verdict, count in counts.most_common())}"
    tests = content["tests"]
    yield (
        f"{tests} tests were made; by Benjamini and Hochberg's method at most 5 % of what holds or "
        f"fails is expected to be false, "
        "among the claims of one paper in one measure at one scale"
    )
    if content["older"]:
        yield f"{plural(content['older'], 'run')} of older code {_were(content['older'])} left out"
    if content["pilots"]:
        yield (
            f"{plural(content['pilots'], 'run')} {_were(content['pilots'])} left out, "
            "because a table in which rates were chosen (tuned:) trains with their seed"
        )


def _were(count: int) -> str:
    return "was" if count == 1 else "were"

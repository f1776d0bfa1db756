"""`relpos claims`: the papers' claims, tested with all finished runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from io import StringIO

from rich.console import Console
from rich.text import Text

from relpos.claims.claim import Claim, families, load, rows, scales
from relpos.claims.verdict import Verdict, adjusted, headline
from relpos.errors import plural, refuse_unknown
from relpos.files import write_json
from relpos.progress import plain_console, tracked
from relpos.ranges import Names
from relpos.results.scale import Scales
from relpos.results.statistics import FAILS, HOLDS, NOT_HERE, NOT_RUN, UNDECIDED
from relpos.runs.run import runs_root
from relpos.tables.experiment import Experiment, experiments

NOT_TESTED = "not tested"
"""A claim without a judgement; its entry says why, and what would test it."""
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
    content = page(chosen(load(paper), ids), scales(), experiments())
    content.show(plain_console(highlight=False))
    name = "-".join(ids or [paper]).replace("/", "_")
    path = runs_root() / "claims" / f"{name}.json"
    plain = [claim.plain for claim in content.claims]
    write_json(path, {"paper": paper} | vars(content) | {"claims": plain})
    return str(path)


def table_page(ids: list[str], primary: str) -> str:
    """The page of a table's claims as text: the variants in the primary measure, the other
    variants, then the claims themselves."""
    # Sorting is stable: claims of equal rank stay in the order of their ids.
    ranked = sorted(
        chosen(load("all"), ids),
        key=lambda claim: (claim.measure is None, claim.measure != primary),
    )
    text = StringIO()
    # Lines are not wrapped, because the page is committed beside the table, and its changes are
    # read as a diff.
    console = plain_console(file=text, highlight=False, width=1_000)
    page(ranked, scales(), experiments()).show(console)
    return text.getvalue()


def chosen(claims: list[Claim], ids: list[str] | None) -> list[Claim]:
    """The claims with these ids, each with its variants; None: all.

    Raises:
        RelposError: there is no such claim.
    """
    if ids is None:
        return claims
    for name in ids:
        refuse_unknown("ids: unknown claim", name, [claim.id for claim in claims])
    return [claim for claim in claims if {claim.id, claim.id.partition("/")[0]} & {*ids}]


@dataclass(frozen=True)
class JudgedClaim:
    """A claim on the page.

    Args:
        claim: the claim.
        findings: a verdict for each scale, corrected for the tests of its family.
        rows: row that its test needs → overrides.
        tables: the tables about it.
    """

    claim: Claim
    findings: list[Verdict]
    rows: dict[str, list[str]]
    tables: list[str]

    @property
    def head(self) -> Verdict:
        """The verdict of the largest scale that decides."""
        if self.claim.judgement is None:
            return Verdict(NOT_TESTED, "")
        return headline(self.findings, self.claim.paper != "across")

    @property
    def test(self) -> str:
        return self.claim.judgement.says if self.claim.judgement else ""

    @property
    def takes(self) -> str:
        """The command that makes its runs, if it is not run at any scale."""
        is_missing = self.claim.run and self.head.verdict == NOT_RUN
        return f"relpos reproduce {self.claim.run}" if is_missing else ""

    @property
    def plain(self) -> dict[str, object]:
        """The content as plain values, with the verdict that counts."""
        head = {"verdict": self.head.verdict, "word": self.head.word, "scale": self.head.scale}
        return asdict(self) | {"test": self.test} | head

    def lines(self) -> Iterator[list[str | tuple[str, str]]]:
        """The lines of the claim, as texts with their styles; for a variant without findings the
        first line and the command."""
        claim, head = self.claim, self.head
        where = f" ({head.scale})" if head.scale else ""
        word = head.word, f"bold {COLOURS[head.verdict]}"
        yield [(f"{claim.id}  ", "bold"), word, (where, "dim"), f"  {claim.says}"]
        if self.findings or claim.measure is None:
            printed = f"; printed: {claim.printed}" if claim.printed else ""
            yield [(f"     {claim.source}{printed}", "dim")]
            if self.test:
                yield [("     test  ", "dim"), self.test]
            for key in ("restated", "remark", "not_tested"):
                if text := getattr(claim, key):
                    yield [(f"     {key.replace('_', ' ')}: {text}", "dim")]
            if self.rows:
                rows = [f"{row}: {' '.join(overrides)}" for row, overrides in self.rows.items()]
                tables = f"  (tables {', '.join(self.tables)})" if self.tables else ""
                yield [("     runs  ", "dim"), "; ".join(rows), (tables, "dim")]
            for finding in self.findings:
                word = f"     {finding.word:<9} ", COLOURS[finding.verdict]
                yield [word, f"{finding.scale}: {finding.figures}"]
                if finding.takes:
                    yield [(f"               to decide it: {finding.takes}", "dim")]
            if self.test and not self.findings:
                missing = "no finished runs of these rows at any scale"
                yield [(f"     {NOT_RUN:<9} ", "dim"), missing]
        if self.takes:
            yield [(f"     to run it {self.takes}", "dim")]


@dataclass(frozen=True)
class ClaimsPage:
    """Claims with their verdicts.

    Args:
        claims: in the order of the page.
        tests: the number of tests.
        older: the number of runs left out because today's code would not make them.
        pilots: the number left out because rates were chosen with their seed.
    """

    claims: list[JudgedClaim]
    tests: int
    older: int
    pilots: int

    def show(self, console: Console) -> None:
        """Prints the claims, then how many hold and how many tests were made."""
        for claim in self.claims:
            for line in claim.lines():
                console.print(Text.assemble(*line), soft_wrap=True)
        for text in self._sums():
            console.print(text, markup=False, soft_wrap=True)

    def _sums(self) -> Iterator[str]:
        """Lines with the numbers of claims and variants that hold, fail, …, and with the number of
        tests."""
        for kind, is_variant in (("claims", False), ("variants (loss, order)", True)):
            of_kind = [claim for claim in self.claims if bool(claim.claim.measure) == is_variant]
            counts = Counter(claim.head.verdict for claim in of_kind)
            texts = [f"{count} {verdict}" for verdict, count in counts.most_common()]
            if texts:
                yield f"{counts.total()} {kind}: {', '.join(texts)}"
        yield (
            f"{self.tests} tests were made; by Benjamini and Hochberg's method at most 5 % of what "
            "holds or fails is expected to be false, among the claims of one paper in one measure "
            "at one scale"
        )
        if self.older:
            yield f"left out: {plural(self.older, 'run')} of older code"
        if self.pilots:
            yield (
                f"left out: {plural(self.pilots, 'run')} whose seed is that of a table in which "
                "rates were chosen (tuned:)"
            )


def page(chosen_claims: list[Claim], runs: Scales, files: Iterable[Experiment] = ()) -> ClaimsPage:
    """The verdicts on some claims, by these runs; `files` are the experiments that may be about
    them.

    Raises:
        RelposError: a test names a row that `rows.yaml` does not have.
    """
    all_rows = rows()
    findings = defaultdict[str, list[Verdict]](list)
    tests = 0
    # The other claims of a family are tested, too, because chance is corrected for in the whole
    # family.
    for family in families(chosen_claims):
        # With runs this takes a while, because some networks are measured.
        family_shown = tracked(family, "testing claims") if runs.pretrained else family
        verdicts = [
            (claim.id, verdict) for claim in family_shown for verdict in claim.verdicts(runs)
        ]
        corrected = adjusted([verdict for _, verdict in verdicts])
        for (name, _), verdict in zip(verdicts, corrected, strict=True):
            findings[name].append(verdict)
            tests += verdict.p is not None
    judged = []
    for claim in chosen_claims:
        needed = claim.judgement.rows if claim.judgement else ()
        for row in needed:
            refuse_unknown(f"claim {claim.id}: unknown row", row, all_rows)
        tables = [file.name for file in files if claim.id in file.claims]
        overrides = {row: all_rows[row] for row in needed}
        judged.append(JudgedClaim(claim, findings[claim.id], overrides, tables))
    return ClaimsPage(judged, tests, runs.older, runs.pilots)

"""How often the rules of claims would find what the papers print, if it were true; nothing is trained.

    python benchmarks/claim_power.py [--draws 100]

See `_claim_simulation` for what is drawn and from what. Writes benchmarks/results/claim_power.json and claim_power.md.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from _claim_simulation import SEEDS, Power, power, worlds
from _report import RESULTS

from relpos.claims import claim as claim_files

PAPERS = ("chang2021", "wennberg2021")
COLUMNS = {
    **{f"dev: holds, {seeds} seeds": f"dev/{seeds} holds" for seeds in SEEDS},
    "fails, 3": "dev/3 fails",
    "fails, 10": "dev/10 fails",
    "test: holds, 10": "test/10 holds",
    "alike: holds, 3": "alike/3 holds",
    "fails, 3 ": "alike/3 fails",
    "holds, 10": "alike/10 holds",
    "fails, 10 ": "alike/10 fails",
}
"""Head → key of a row."""
ABOUT_CLAIMS = """`python benchmarks/claim_power.py --draws {draws}`: pre-trainings drawn from the papers' means and errors, and
tested as real runs are; nothing is trained. What is drawn, and what is assumed where nothing is printed, stands in
[_claim_simulation.py](../_claim_simulation.py). `dev`, `test`: the figures of these sets are true. `alike`: all rows
are the same; there a claim that rows do not differ (C05, C09, C15, W11) is right, and every other is wrong. Claims without
printed figures (C10, C20, W15), and those that are not about scores, cannot be simulated. Nothing is printed for variants.

C09 seldom holds on `dev` and W11 fails more often than 7 %, because the papers' dev figures contradict their sentences: fixed is
ahead of composite at base size, and the gain grows by 0.59 from S = 1 to S = 5. The errors of all differences are drawn toward
each other: where the spread of one row is much larger, which three seeds do not show, that row is told apart too often (C21
`alike`: ConvBERT's spread is twice that of the others)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100, help="of every claim, world and number of seeds")
    draws = parser.parse_args().draws
    claims = [row for paper in PAPERS for row in of_claims(paper, draws)]
    content = {"draws": draws, "claims": claims}
    (RESULTS / "claim_power.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "claim_power.md").write_text(page(content), encoding="utf-8")


def of_claims(paper: str, draws: int) -> list[dict[str, Any]]:
    """A row a claim: the shares of the draws in which it holds and fails, by world and number of seeds."""
    claims = claim_files.load(paper)
    found: dict[str, dict[str, Power]] = {}
    for world in worlds(paper):
        for seeds in SEEDS:
            for name, of_claim in power(claims, world, seeds, draws).items():
                found.setdefault(name, {})[f"{world.name}/{seeds}"] = of_claim
    return [
        {"claim": claim.id, "says": claim.says, "restated": claim.restated}
        | {f"{key} {what}": getattr(of_claim, what) for key, of_claim in found[claim.id].items() for what in ("holds", "fails")}
        for claim in claims
        if claim.id in found
    ]


def page(content: dict[str, Any]) -> str:
    """The table in Markdown."""
    lines = [
        "# What the rules would find if the papers' figures were true",
        "",
        ABOUT_CLAIMS.format(draws=content["draws"]),
        "",
        _row(["claim", *COLUMNS, "restated"]),
        _row(["---"] * (len(COLUMNS) + 2)),
        *(
            _row([f"{row['claim']}: {row['says']}", *(_percent(row.get(key)) for key in COLUMNS.values()), row["restated"]])
            for row in content["claims"]
        ),
    ]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _percent(share: float | None) -> str:
    return "—" if share is None else f"{100 * share:.0f} %"


if __name__ == "__main__":
    main()

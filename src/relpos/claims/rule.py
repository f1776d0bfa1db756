"""The runner of all claims. A rule is a judge function and what it needs; a test is a rule with a claim's arguments.

A judge looks at one place, a scale or several that are compared, and returns a verdict, or None where the place says nothing of the
claim. Everything else is done here: the places to look at, the rows that a test needs, variants in another measure, notes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from relpos.claims.verdict import EXACT, FAILS, NOT_HERE, NOT_RUN, UNDECIDED, Verdict, joined
from relpos.results.gain import Contrast
from relpos.results.plateau import NONE
from relpos.results.scale import MEAN, Scale, Scales, short_travel
from relpos.results.values import GLUE

Place = tuple[str, Sequence[Scale]]
"""Where a test is made: a label, and one scale, or several that are compared, the largest last; none for a computation."""
Judge = Callable[..., Verdict | None]
"""(test, the scales of a place, and the rule's options by their names) → the verdict; None where these say nothing of the claim."""
Places = Callable[["Test", Scales], Iterable[Place]]
Says = str | Callable[..., str]
Variant = Callable[["Test"], "Test"] | None


@dataclass(frozen=True)
class Rule:
    """How claims of one kind are tested. Called with a claim's arguments it gives the test.

    Args:
        judge: looks at one place.
        options: keys of a claim that the judge alone reads, with their defaults.
        says: what must be true for the claim to hold, in one line: text with the test's arguments in braces, and with `first` and
            `second`: the rows of the contrasts; or a function of the test and of its options by their names.
        places: where to look.
        variant: the same claim in a measure in nats, apart from measure and bound; None: it does not compare rows.
        by_contrast: whether each contrast is judged by itself, so that one of them is enough for the claim to fail.
    """

    judge: Judge
    options: Mapping[str, Any]
    says: Says
    places: Places
    variant: Variant = None
    by_contrast: bool = False

    def __call__(self, **arguments: Any) -> Test:
        """The test of a claim with these arguments: those of `Test`, and the rule's options.

        Raises:
            TypeError: there is no such argument, or one is missing.
        """
        options = {key: arguments.pop(key, default) for key, default in self.options.items()}
        if missing := [key for key, value in options.items() if value is inspect.Parameter.empty]:
            raise TypeError(f"{missing[0]!r} is missing")
        contrasts = tuple(Contrast(*pair) for pair in arguments.pop("contrasts", ()))
        if arguments.get("at", "each") not in ("each", "largest"):
            raise TypeError(f"at={arguments['at']!r} is neither 'each' nor 'largest'")
        if unknown := arguments.keys() - Test.__dataclass_fields__.keys():
            raise TypeError(f"unknown argument {min(unknown)!r}")
        return Test(self, contrasts, options=options, **arguments)


@dataclass(frozen=True)
class Test:
    """A claim's test: its rule and the keys under `test` in the claim's file.

    Args:
        rule: how it is tested.
        contrasts: pairs of rows, `[first, second]`, that decide.
        beside: further pairs whose figures are shown; they do not decide.
        row: the row whose networks or runs are looked at.
        others: rows that it is compared with.
        column: a column of GLUE, or `glue`: the mean of the nine, or of those that both rows have; in variants `loss` or `order`.
        columns: the columns of that mean, if the claim is about fewer; None: all of GLUE's.
        apart: further columns whose figures are shown; they do not decide.
        at: `each` scale, or the `largest` alone.
        note: how these runs differ from the paper's.
        options: of the rule alone.
    """

    __test__ = False  # not one of pytest's

    rule: Rule
    contrasts: Sequence[Contrast] = ()
    beside: Sequence[Sequence[str]] = ()
    row: str = ""
    others: Sequence[str] = ()
    column: str = MEAN
    columns: Sequence[str] | None = None
    apart: Sequence[str] = ()
    at: str = "each"
    note: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def says(self) -> str:
        """What must be true for the claim to hold; one line."""
        if not isinstance(self.rule.says, str):
            return self.rule.says(self, **self.options)
        first, second = (", ".join(dict.fromkeys(pair[side] for pair in self.contrasts)) for side in (0, 1))
        words = {"row": self.row, "others": ", ".join(self.others), "column": self.column, "first": first, "second": second}
        return self.rule.says.format(contrasts=self.said, **words, **self.options)

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows whose runs it needs, each once."""
        return tuple(dict.fromkeys([*(row for pair in self.contrasts for row in pair), *filter(None, [self.row]), *self.others]))

    @property
    def said(self) -> str:
        """`fixed − absolute, dynamic − absolute`"""
        return ", ".join(map(str, self.contrasts))

    def variant(self, measure: str, bound: float) -> Test | None:
        """The same claim in `loss` (held-out loss) or `order` (shuffle gap); differences below `bound`, in nats, count as none."""
        if self.rule.variant is None:
            return None
        test = self.rule.variant(self)
        return replace(test, column=measure, columns=None, apart=(), options={**test.options, "bound": bound})

    def verdicts(self, runs: Scales) -> list[Verdict]:
        """One for each place that says something of the claim, the largest last; published checkpoints come after all."""
        found: list[Verdict] = []
        for label, scales in self.rule.places(self, runs):
            if (verdict := self._verdict(scales)) is None:
                continue
            # Parameters that could not move far may alone make rows differ. Without positions there are none.
            schemes = () if verdict.verdict == NOT_RUN else [row for row in self.rows if row != NONE]
            slow = short_travel(scale.travels.get(row) for scale in scales for row in schemes)
            figures = joined([verdict.figures, self.note, slow])
            # Nothing here knows how a published checkpoint was trained.
            is_open = verdict.verdict in (UNDECIDED, NOT_HERE) and all(scale.can_go_on for scale in scales)
            takes = verdict.takes if is_open else ""
            is_aside = not all(scale.is_of_paper for scale in scales)
            found.append(replace(verdict, figures=figures, scale=verdict.scale or label, takes=takes, is_aside=is_aside))
        return found

    def _verdict(self, scales: Sequence[Scale]) -> Verdict | None:
        """The judge's verdict. Of two rows that are both on the bag-of-words plateau nothing can be said; one that is, is named."""
        found = self.rule.judge(self, *scales, **self.options)
        if found is None or found.verdict == NOT_RUN:
            return found
        on_it = {row for scale in scales for row in self.rows if scale.is_on_plateau(row)}
        named = tuple(row for row in dict.fromkeys(row for pair in self.contrasts for row in pair) if row in on_it and row != NONE)
        others = [pair for pair in self.contrasts if not on_it.issuperset(pair)]
        if len(others) == len(self.contrasts):
            return replace(found, on_plateau=named)
        if self.rule.by_contrast and others:
            # Contrasts off the plateau may refute the claim; to bear it out, those on the plateau would be needed, too.
            rest = self.rule.judge(replace(self, contrasts=others), *scales, **self.options)
            if rest and rest.verdict == FAILS:
                return replace(rest, figures=found.figures, on_plateau=named)
        mute = ", ".join(str(pair) for pair in self.contrasts if pair not in others)
        why = f"both rows of {mute} are on the bag-of-words plateau"
        return Verdict(NOT_HERE, joined([found.figures, why]), takes="longer training, until one of them has left the plateau")


def each_scale(test: Test, runs: Iterable[Scale]) -> list[Place]:
    """A place for every scale, by itself."""
    return [(scale.label, [scale]) for scale in runs]


def with_scores(test: Test, runs: Scales) -> list[Place]:
    """The scales at which all rows of the test have a score in some column of GLUE."""
    return each_scale(test, [scale for scale in runs if scale.shared(GLUE, *test.rows)])


def once(test: Test, runs: Scales) -> list[Place]:
    """A single place without runs: for what is computed or counted."""
    return [(EXACT, [])]


def rule(says: Says, places: Places = each_scale, variant: Variant = None, by_contrast: bool = False) -> Callable[[Judge], Rule]:
    """Makes a rule of a judge; see `Rule`. The keyword-only arguments of the judge are the rule's options."""

    def made(judge: Judge) -> Rule:
        # Of a judge that wraps another, those of the inner one: `inspect` follows `functools.wraps`.
        parameters = inspect.signature(judge).parameters.values()
        options = {each.name: each.default for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
        return Rule(judge, options, says, places, variant, by_contrast)

    return made

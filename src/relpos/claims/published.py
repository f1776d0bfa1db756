"""Claims that compare scores with a number that others have published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from relpos.claims.effort import to_decide
from relpos.claims.finding import NOT_RUN, UNDECIDED, Evidence, Finding, all_of, joined
from relpos.claims.gains import pretraining_means
from relpos.claims.requirements import SEVERAL, Requirements
from relpos.claims.scales import Scale, Scales
from relpos.tables.statistics import Difference, paired


@dataclass(frozen=True)
class AbovePublished:
    """Dev scores of fine-tunings of one published network lie above its published scores.

    Holds: the 95 % interval of the mean over fine-tunings lies above the published score in every column (all must, so that no
    correction is due). Fails: it lies below in one, by a two-sided test at 0.05 with Holm's correction. The published scores count
    as exact, because their spread is unknown. A network is recognised by its name on the hub, or by the name of its folder.

    Args:
        row: a row of fine-tunings, as `relpos.claims.hosts` names them.
        host: the network.
        scores: column → published score × 100.
    """

    row: str
    host: str
    scores: Mapping[str, float]

    @property
    def says(self) -> str:
        published = ", ".join(f"{column} above {score}" for column, score in self.scores.items())
        return f"dev scores of {self.row} in {self.host}: {published}"

    @property
    def rows(self) -> tuple[str, ...]:
        """The row."""
        return (self.row,)

    @property
    def requires(self) -> Requirements:
        """Several fine-tunings in every column."""
        return Requirements(SEVERAL, tuple(self.scores), len(self.scores))

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each scale of this network that has the row."""
        return [self.at(scale) for scale in scales if self._is_of_host(scale) and scale.scores.get(self.row)]

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        measured = {column: self._measured(scale, column) for column in self.scores}
        if missing := [column for column, values in measured.items() if not values]:
            return Finding(NOT_RUN, f"no scores of {self.row} in {', '.join(missing)}", scale.label)
        tested = {column: paired(values, [self.scores[column]] * len(values)) for column, values in measured.items()}
        figures = [self._said(column, values, tested[column]) for column, values in measured.items()]
        differences = [each for each in tested.values() if each]
        if len(differences) < len(tested):
            return Finding(UNDECIDED, joined(figures), scale.label, takes="two fine-tuning seeds or more of each task")
        evidence = all_of([Evidence(each.p if each.value > 0 else 1.0, each.p if each.value < 0 else 1.0) for each in differences])
        takes = to_decide(scale, differences) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, joined(figures), scale.label, evidence.p, takes)

    def _is_of_host(self, scale: Scale) -> bool:
        return str(scale.meaning.get("host", "")).rpartition("/")[2] == self.host

    def _measured(self, scale: Scale, column: str) -> list[float]:
        scores = scale.scores[self.row].get(column)
        return list(pretraining_means(scores.values).values()) if scores else []

    def _said(self, column: str, values: list[float], tested: Difference | None) -> str:
        """`sst2 93.1 [92.6, 93.6] against 92.9, 2.8 % fewer errors, 5 fine-tunings`"""
        published, mean = self.scores[column], sum(values) / len(values)
        interval = f" [{published + tested.low:.1f}, {published + tested.high:.1f}]" if tested else ""
        fewer = 100 * (mean - published) / (100 - published)
        errors = f"{abs(fewer):.1f} % {'fewer' if fewer >= 0 else 'more'} errors"
        return f"{column} {mean:.1f}{interval} against {published}, {errors}, {len(values)} fine-tunings"

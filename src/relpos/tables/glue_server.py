"""The files that gluebenchmark.com accepts: eleven, with lines of `index<TAB>prediction`.

Names of the files and row counts are listed in `templates/glue_server.csv`; the answers are the
labels of conf/task. The column `constant` has the answer that fills a file for which there is no
model: the majority class, 0 for STS-B. The server asks this of those who submit single tasks.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from importlib.resources import files

from relpos.config.conf import conf_file, options
from relpos.readers import Plain

HEADER = "index\tprediction"


@dataclass(frozen=True)
class Answers:
    """One file of a submission.

    Args:
        file: its name, without `.tsv`.
        column: of the table; the best run in this column predicts the file.
        rows: how many the official test file has.
        labels: the allowed answers; None where they are numbers.
        range: of the numbers.
        constant: the answer for every row where there is no model.
    """

    file: str
    column: str
    rows: int
    labels: tuple[str, ...] | None
    range: tuple[float, float] | None
    constant: str

    def problem(self, text: str) -> str | None:
        """The first fault for which the server would refuse a file, in a few words; None for a
        right file.

        >>> wnli = Answers("WNLI", "wnli", 2, ("0", "1"), None, "0")
        >>> wnli.problem("index\\tprediction\\n0\\t1\\n1\\t2\\n")
        "line 3: answer '2' is not 0, 1"
        """
        # One newline at the end is right; a second one would be an empty row.
        first, *lines = text.removesuffix("\n").split("\n")
        if first != HEADER:
            return f"header {first!r} where {HEADER!r} is needed"
        for row, line in enumerate(lines):
            index, tab, answer = line.partition("\t")
            if not tab or index != str(row):
                return f"line {row + 2} is {line[:40]!r} where row {row} is due"
            if not self._is_allowed(answer):
                return f"line {row + 2}: answer {answer[:40]!r} is not {self._allowed()}"
        if len(lines) != self.rows:
            return f"{len(lines):,} rows where the server has {self.rows:,}"
        return None

    def _allowed(self) -> str:
        if self.labels:
            return ", ".join(self.labels)
        return "a number from {:g} to {:g}".format(*(self.range or ()))

    def _is_allowed(self, answer: str) -> bool:
        if self.labels is not None:
            return answer in self.labels
        low, high = self.range or (-math.inf, math.inf)
        try:
            return low <= float(answer) <= high  # not-a-number fails here too
        except ValueError:
            return False

    def constant_file(self) -> str:
        """A file with the same answer for every row."""
        return "".join(
            f"{line}\n"
            for line in (HEADER, *(f"{row}\t{self.constant}" for row in range(self.rows)))
        )


def layout() -> list[Answers]:
    """The eleven files."""
    text = files("relpos.tables").joinpath("templates/glue_server.csv").read_text(encoding="utf-8")
    absent: Plain = {"test": (), "range": None}
    tasks = [absent | conf_file(f"task/{name}") for name in options()["task"]]
    task_of = {file: task for task in tasks for file in task["test"]}
    result = []
    for line in csv.DictReader(text.splitlines()):
        task = task_of[line["file"]]
        labels = tuple(task["labels"]) if task["labels"] is not None else None
        bounds = tuple(task["range"]) if task["range"] is not None else None
        result.append(
            Answers(
                line["file"],
                line["column"],
                int(line["rows"]),
                labels,
                bounds,
                line["constant"],
            )
        )
    return result

"""`relpos submit`: the zip for the GLUE server from the best run of each column on the dev set.

gluebenchmark.com accepts eleven files with lines of `index<TAB>prediction`, which fine-tunings
write; their names and row counts stand in `tables/templates/glue_server.csv`. The runs for MNLI-m
and MNLI-mm are chosen independently, as Chang et al. do, and may differ. AX is answered by the run
for MNLI-m.
"""

from __future__ import annotations

import csv
import zipfile
from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import quote

from relpos.errors import RelposError, say
from relpos.files import replacing
from relpos.readers import check_recorded, fitted, read_text
from relpos.runs.run import runs_root
from relpos.runs.table_file import RowRun
from relpos.tables.table import Row, written


@dataclass(frozen=True)
class Answers:
    """One file of a submission.

    Args:
        file: its name, without `.tsv`.
        column: of the table; the best run in this column predicts the file.
        rows: number of rows of the official test file.
        constant: the answer that fills the file where there is no model: the majority class, 0 for
            STS-B. The server asks this of those who submit single tasks.
    """

    file: str
    column: str
    rows: int
    constant: str


def layout() -> list[Answers]:
    """The eleven files."""
    text = files("relpos.tables").joinpath("templates/glue_server.csv").read_text(encoding="utf-8")
    return fitted([*csv.DictReader(text.splitlines())], list[Answers])


def submit(table: str, row: str, allow_missing: bool) -> str:
    """`relpos submit`: writes `submissions/ROW.zip` beside the table.

    Returns:
        the path of the zip.

    Raises:
        RelposError: required files or all files are missing, or the server would refuse a file; the
            message names them.
    """
    folder, content = written(table)
    of_row = content.row(row)
    texts = _gather(of_row, allow_missing)
    # No two rows have the same file, as `a b` and `a_b` would have if blanks were replaced.
    path = folder / "submissions" / f"{quote(of_row.name, safe=' +')}.zip"
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for file, text in texts.items():
            # A ZipInfo without a time is of 1980: the same predictions make the same bytes.
            archive.writestr(zipfile.ZipInfo(f"{file}.tsv"), text, zipfile.ZIP_DEFLATED)
    return str(path)


def _gather(row: Row, allow_missing: bool) -> dict[str, str]:
    """Name of a file → its content, from the run that is best on the dev set."""
    texts: dict[str, str] = {}
    # All problems are collected before the refusal: a missing file may be a training to do.
    wrong, missing, filled = [], [], 0
    for answers in layout():
        text, why = _predictions(best_run(row, answers.column), answers)
        if text is None and allow_missing:
            lines = (f"{number}\t{answers.constant}\n" for number in range(answers.rows))
            text, filled = "".join(["index\tprediction\n", *lines]), filled + 1
            say(f"relpos: {answers.file}: {why}; every row says {answers.constant}: no result")
        if text is None:
            missing.append(f"{answers.file}: {why}")
        elif (rows := text.count("\n") - 1) != answers.rows:
            wrong.append(f"{answers.file}: {rows:,} rows where the server has {answers.rows:,}")
        else:
            texts[answers.file] = text
    if wrong or missing:
        # AX lies in no task's folder: with its file and without it, the run for MNLI is the same,
        # and finished.
        if missing:
            missing.append(
                "a run whose folder is deleted is made again, with files that came later"
            )
            missing.append("allow_missing=true fills what is missing with a constant answer")
        raise RelposError(f"cannot submit {row.name}: {'; '.join(wrong + missing)}")
    if filled == len(texts):
        raise RelposError(f"cannot submit {row.name}: no run of it has predicted a test file")
    return texts


def best_run(row: Row, column: str) -> RowRun | None:
    """The finished run of a row with the highest dev score in a column, the earliest of equal ones;
    None without a run.

    >>> runs = [RowRun("finetune", name, "finished", "", columns={"rte": score}) for name, score in (("a", 60.0), ("b", 70.0))]
    >>> best_run(Row("fixed", runs=runs), "rte").identity
    'b'
    """
    runs = [run for run in row.runs if run.state == "finished" and column in run.columns]
    return max(runs, key=lambda run: run.columns[column], default=None)


def _predictions(run: RowRun | None, answers: Answers) -> tuple[str | None, str]:
    """The file that the run wrote, or None and the reason."""
    if run is None:
        return None, f"no finished run has {answers.column}"
    path = runs_root() / run.path / "predictions" / f"{answers.file}.tsv"
    if not path.exists():
        return None, f"{run.path} was not given the test file"
    check_recorded(path)
    return read_text(path), ""

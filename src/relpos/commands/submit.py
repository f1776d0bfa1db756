"""`relpos submit`: the zip for the GLUE server from the best run of each column on the dev set.

MNLI-m and MNLI-mm are chosen apart, as Chang et al. do: two models may answer. AX is answered by the run that is best on MNLI-m.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos.errors import RelposError
from relpos.files import replacing, write_json
from relpos.runs.run import runs_root
from relpos.tables.glue_server import Answers, file_name, layout
from relpos.tables.row_runs import row_of, written

if TYPE_CHECKING:
    from omegaconf import DictConfig

NEW = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the zip: the same predictions make the same bytes."""


def submit(cfg: DictConfig) -> str:
    """`relpos submit`: writes `submissions/ROW.zip` beside the table, and `ROW.json` that says which run answered what.

    Args:
        cfg: `table`, `row`, `allow_missing`.

    Returns:
        the path of the zip.

    Raises:
        RelposError: a file is missing and may not be, or every one is; or one is not as the server wants it. All of them are named.
    """
    folder, content = written(str(cfg.table))
    row = row_of(content, str(cfg.row))
    texts, origins = _gather(row, bool(cfg.allow_missing))
    path = folder / "submissions" / f"{file_name(row['name'])}.zip"
    _write_zip(path, texts, origins)
    words = {"table": content["name"], "row": row["name"], "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    write_json(path.with_suffix(".json"), words | {"files": origins})
    return str(path)


def _gather(row: dict[str, Any], allow_missing: bool) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """The text of each file, and where it is from."""
    texts: dict[str, str] = {}
    origins: dict[str, dict[str, Any]] = {}
    wrong, missing = [], []
    for answers in layout():
        run = best_run(row, answers.column)
        text, why = _predictions(run, answers)
        if text is None and allow_missing:
            text, run = answers.constant_file(), None
            print(f"relpos: {answers.file}: {why}; every row says {answers.constant}: no result", file=sys.stderr)
        if text is None:
            missing.append(f"{answers.file}: {why}")
        elif problem := answers.problem(text):
            wrong.append(f"{answers.file}: {problem}")
        else:
            texts[answers.file], origins[answers.file] = text, _origin(run, answers)
    if wrong or missing:
        tail = "; allow_missing=true fills what is missing with a constant answer" if missing else ""
        raise RelposError(f"cannot submit {row['name']}: {'; '.join(wrong + missing)}{tail}")
    if all("constant" in origin for origin in origins.values()):
        raise RelposError(f"cannot submit {row['name']}: no run of it has predicted a test file")
    return texts, origins


def best_run(row: dict[str, Any], column: str) -> dict[str, Any] | None:
    """The finished run of a row with the highest dev score of this column, the earliest of equals; None where there is none."""
    runs = [run for run in row.get("runs", ()) if run["state"] == "finished" and column in run["columns"]]
    return max(runs, key=lambda run: float(run["columns"][column]), default=None)


def _predictions(run: dict[str, Any] | None, answers: Answers) -> tuple[str | None, str]:
    """The file as the run wrote it; or None and why."""
    if run is None:
        return None, f"no finished run has {answers.column}"
    path: Path = runs_root() / run["path"] / "predictions" / f"{answers.file}.tsv"
    try:
        return path.read_bytes().decode("utf-8"), ""
    except FileNotFoundError:
        return None, f"{run['path']} was not given the test file"


def _origin(run: dict[str, Any] | None, answers: Answers) -> dict[str, Any]:
    if run is None:
        return {"constant": answers.constant}
    return {key: run[key] for key in ("path", "pretrain_seed", "seed")} | {"dev": run["columns"][answers.column]}


def _write_zip(path: Path, texts: dict[str, str], origins: dict[str, dict[str, Any]]) -> None:
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.tsv", NEW), text, zipfile.ZIP_DEFLATED)
        constant = {name: origin["constant"] for name, origin in origins.items() if "constant" in origin}
        archive.comment = f"constant answers: {json.dumps(constant)}".encode() if constant else b""

"""An experiment file: the question, the rows, and the words that all rows share. One file a table."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from relpos.errors import RelposError, nearest
from relpos.runs.config import options, shipped
from relpos.tables.checks import Check, parse

STAGES = ("pretrain", "finetune", "noop")


@dataclass(frozen=True)
class Experiment:
    """What an experiment file says; the keys of the file are the fields here.

    Words are Hydra overrides, as typed on the command line. `pretrain.X=…` and `finetune.X=…` reach one stage only.
    A file with words for the stage `noop` has runs that sleep instead, one a row and seed: for tests of launchers.

    Args:
        name: of the file.
        folder: of the file.
        question: what the table answers.
        rows: row → the words in which it differs.
        tasks: GLUE tasks, each fine-tuned with every seed; an empty list: pre-training is all.
        base: words of all rows, for both stages.
        stages: `pretrain` and `finetune` → words of that stage alone.
        seeds: of fine-tuning; a number n is short for 0, …, n − 1.
        pretrain_seeds: of pre-training; null: the one that the words give.
        workers: processes side by side; null: one a core.
        threads: CPU threads of each; null: the cores divided among the workers.
        checks: what the numbers should show, see `relpos.tables.checks`.
        printed: file of the paper's numbers, beside the experiment file.
        printed_runs: how many runs of the paper a printed number sums up.
        statistic: what the paper prints of its runs, mean, best or median.
        split: where the paper measured it, dev or test.
        baseline: the rows that the others are held against, each row against that which shares most words with it.
        lengths: of sequences at which the held-out loss of every row is measured; needs `packing=document`.
        needs: a word that the rows need and relpos does not have yet; until then they are planned without runs.
        parameters: the table is nothing but parameter counts: those of this paper, see `relpos.commands.params`.
        claims: ids of the claims that the table is about.
    """

    name: str
    folder: Path
    question: str
    rows: dict[str, list[str]]
    tasks: list[str]
    base: list[str] = field(default_factory=list)
    stages: dict[str, list[str]] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=lambda: [0])
    pretrain_seeds: list[int] | None = None
    workers: int | None = None
    threads: int | None = None
    checks: list[Check] = field(default_factory=list)
    printed: str | None = None
    printed_runs: int = 10
    statistic: str = "mean"
    split: str = "dev"
    baseline: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    needs: str | None = None
    parameters: str | None = None
    claims: list[str] = field(default_factory=list)

    def select(self, names: list[str] | None) -> dict[str, list[str]]:
        """The rows of these names, in the order of the file; None: all.

        Raises:
            RelposError: there is no such row.
        """
        if names is not None and not names:
            raise RelposError(f"table {self.name}: rows=[]: no row.{nearest('', self.rows)}")
        for name in names or ():
            if name not in self.rows:
                raise RelposError(f"table {self.name}: unknown row {name!r}.{nearest(name, self.rows)}")
        return {name: words for name, words in self.rows.items() if names is None or name in names}


def load(table: str) -> Experiment:
    """Reads and checks an experiment file.

    Args:
        table: a name in `experiments/`, or the path of a YAML file.

    Raises:
        RelposError: there is no such file, or something in it is wrong; named with the nearest right word.
    """
    path = _find(table)
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise RelposError(f"{where}: not YAML: {getattr(error, 'problem', None) or error}") from error
    except OSError as error:
        raise RelposError(f"{path}: {error.strerror}") from error
    return _checked(path, content)


class _Loader(yaml.SafeLoader):
    """Refuses what YAML itself lets pass: a key twice, of which the last would count."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for place, key in enumerate(keys):
            if key in keys[:place]:
                mark = node.value[place][0].start_mark
                raise yaml.constructor.ConstructorError(problem=f"{key!r} stands here twice", problem_mark=mark)
        return super().construct_mapping(node, deep)


def _find(table: str) -> Path:
    if table.endswith((".yaml", ".yml")) or "/" in table:
        path = Path(table).expanduser()
        if not path.is_file():
            raise RelposError(f"table={table}: there is no such file")
        return path
    known = {path.stem: path for path in shipped("experiments").glob("*.yaml")}
    if table not in known:
        raise RelposError(f"unknown table {table!r}.{nearest(table, [name for name in known if name[0] != '_'])}")
    return known[table]


def _checked(path: Path, content: Any) -> Experiment:
    if not isinstance(content, dict):
        raise RelposError(f"{path}: a mapping is expected (question, rows, tasks, …)")
    known = [key.name for key in fields(Experiment) if key.name not in ("name", "folder")]
    for key in content:
        if key not in known:
            raise RelposError(f"{path}: unknown key {key!r}.{nearest(str(key), known)}")
    if content.get("parameters"):  # nothing is trained
        content |= {"rows": {str(content["parameters"]): []}, "tasks": []}
    for key in ("question", "rows", "tasks"):
        if key not in content or not (content[key] or key == "tasks"):
            raise RelposError(f"{path}: {key} is missing")
    for key, kind in {"rows": dict, "stages": dict, "tasks": list, "checks": list}.items():
        if not isinstance(content.get(key) or kind(), kind):
            raise RelposError(f"{path}: {key}: a {'mapping' if kind is dict else 'list'} is expected")
    content |= {"rows": _words_of(path, "rows", content["rows"]), "base": _words(path, "base", content.get("base"))}
    content["stages"] = _words_of(path, "stages", content.get("stages") or {})
    _known(path, "stages", content["stages"], STAGES)
    _known(path, "tasks", content["tasks"], options()["task"])
    for key in ("seeds", "pretrain_seeds"):
        if type(content.get(key)) is int and content[key] > 0:
            content[key] = list(range(content[key]))
        _check_seeds(path, key, content.get(key))
    for key in ("workers", "threads", "printed_runs"):
        if content.get(key) is not None and (type(content[key]) is not int or content[key] < 1):
            raise RelposError(f"{path}: {key}: a whole number from 1 up is expected")
    _check_comparison(path, content)
    content["checks"] = parse(content.get("checks") or [], str(path), list(content["rows"]))
    return Experiment(path.stem, path.parent, **{key: value for key, value in content.items() if value is not None})


def _known(path: Path, key: str, names: Any, known: Any) -> None:
    for name in names:
        if name not in known:
            raise RelposError(f"{path}: {key}: unknown {key[:-1]} {name!r}.{nearest(str(name), known)}")


def _check_comparison(path: Path, content: dict[str, Any]) -> None:
    known = {"statistic": ("mean", "best", "median"), "split": ("dev", "test"), "baseline": tuple(content["rows"])}
    if isinstance(content.get("baseline"), str):
        content["baseline"] = [content["baseline"]]
    for key, words in known.items():
        given = content.get(key) or []
        for one in given if isinstance(given, list) else [given]:
            if one not in words:
                raise RelposError(f"{path}: {key}: unknown {one!r}.{nearest(str(one), words)}")
    lengths = content.get("lengths") or []
    if not isinstance(lengths, list) or not all(type(length) is int and length >= 8 for length in lengths):
        raise RelposError(f"{path}: lengths: a list of whole numbers from 8 up is expected, as in [128, 256]")


def _words_of(path: Path, key: str, lists: dict[Any, Any]) -> dict[str, list[str]]:
    return {str(name): _words(path, f"{key}.{name}", words) for name, words in lists.items()}


def _words(path: Path, key: str, words: Any) -> list[str]:
    if not isinstance(words or [], list):
        raise RelposError(f"{path}: {key}: a list of words is expected, as in [position=none, k=8]")
    for word in words or ():
        if not isinstance(word, str) or not word.partition("=")[1]:
            raise RelposError(f"{path}: {key}: {word!r} is not a word (key=value)")
    return list(words or [])


def _check_seeds(path: Path, key: str, seeds: Any) -> None:
    if seeds is None:
        return
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise RelposError(f"{path}: {key}: a list of whole numbers from 0 up is expected, as in [0, 1, 2]")
    if len(set(seeds)) < len(seeds):
        raise RelposError(f"{path}: {key}: a seed stands there twice")

"""Experiment files, one for each table: the question, the rows, and the overrides that all rows
share."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, cast

from relpos.config.arguments import spelled
from relpos.config.conf import key_of, options, shipped
from relpos.data.own_task import is_task_file
from relpos.errors import RelposError, nearest, refuse_unknown
from relpos.measures.measure import measures
from relpos.places import expanded
from relpos.ranges import Length, Natural, Seeds, Threads, between, check, checked, rules
from relpos.readers import Plain, read_text, read_yaml
from relpos.results.values import GLUE
from relpos.runs.table_file import table_folder
from relpos.trust import refuse_names

MEASURING = ("order", "order_snapshots")
STAGES = ("pretrain", "finetune", *MEASURING)

SERVER_COLUMNS = (*GLUE, "wnli", "ax")
"""Columns in which the GLUE server gives scores."""
ServerScore = Annotated[float, between(-100, 100)]  # correlations may be below zero
LONGEST_NAME = 100
"""Characters of a row's name, which is a part of file names and a cell of every table."""


@dataclass(frozen=True)
class Experiment:
    """The content of an experiment file; the fields are the keys of the file, and their annotations
    check its values.

    Overrides are Hydra's, as typed on the command line. `pretrain.X=…`, `finetune.X=…` and
    `order.X=…` reach one stage only.

    Args:
        file: its path.
        question: what the table answers.
        rows: name → the overrides in which the row differs.
        tasks: tasks of conf/task and the user's YAML files (paths from the folder of the experiment
            file), each fine-tuned with every seed; with an empty list there are only pre-trainings.
        base: overrides of all rows, for both stages.
        stages: `pretrain`, `finetune` and `order` → overrides of that stage alone.
        seeds: of fine-tuning; in the file, a number n is short for 0, …, n − 1.
        pretrain_seeds: of pre-training; null: the one that the overrides give.
        threads: CPU threads of each worker; null: the cores divided among the workers.
        printed: file of the paper's numbers, a path from the folder of the experiment file.
        statistic: how a printed number sums up the paper's runs: mean, best or median.
        split: the set on which the paper measured: dev or test.
        server: row → column → the score × 100 that the GLUE server gave; of two metrics their mean.
        baseline: the rows that the others are compared with; each row with the baseline that shares
            most overrides with it.
        lengths: of sequences at which the held-out loss of every row is measured; needs
            `packing=document`.
        order: measures that become columns, such as `shuffle` and `pairs`; their overrides stand
            under the stage `order`. With a stage `order_snapshots`, the snapshots of pre-trainings
            are measured too; its overrides come after `order`'s.
        network: the published checkpoint (folder or hub id) from which the rows are fine-tuned:
            nothing is pre-trained. `network=` on the command line names another one; with `???` it
            must. If there is no such checkpoint here, rows have no runs.
        choices: the rows of which the paper prints the best one of each column; a side table shows
            what that choice gains.
        parameters: a paper whose parameter counts are the whole table, see
            `relpos.commands.params`.
        properties: a paper whose schemes' properties are the whole table, see
            `relpos.commands.analyze`.
        claims: ids of the claims that the table is about.
        primary: the measure that decides these claims first, chosen before the runs: `loss`
            (held-out loss) or `order` (shuffle gap). `claims.txt` beside the table shows the
            variants in this measure, then the other variants, then the claims.
        tuned: the table in which the rows' `recipe.position_lr` was chosen, to which the page
            refers.
    """

    file: Path
    question: str
    rows: dict[str, list[str]]
    tasks: list[str]
    base: list[str] = field(default_factory=list)
    stages: dict[str, list[str]] = field(default_factory=dict)
    seeds: list[Natural] = field(default_factory=lambda: [0])
    pretrain_seeds: list[Natural] | None = None
    threads: Threads | None = None
    printed: str | None = None
    statistic: Literal["mean", "best", "median"] = "mean"
    split: Literal["dev", "test"] = "dev"
    server: dict[str, dict[str, ServerScore]] = field(default_factory=dict)
    baseline: list[str] = field(default_factory=list)
    lengths: list[Length] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    network: str | None = None
    choices: list[str] = field(default_factory=list)
    parameters: str | None = None
    properties: Literal["wennberg2021"] | None = None
    claims: list[str] = field(default_factory=list)
    primary: Literal["loss", "order"] | None = None
    tuned: str | None = None

    @property
    def name(self) -> str:
        """The name of the file without its suffix, so that a copy under another name is another
        table."""
        return self.file.stem

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.file.parent

    @property
    def trained(self) -> list[str]:
        """The stages of which a row has runs of its own."""
        return ["pretrain"] * (self.network is None) + ["finetune"] * bool(self.tasks)

    def select(self, names: list[str] | None) -> list[str]:
        """These names of rows in the order of the file; None: those of all rows.

        Raises:
            RelposError: there is no such row.

        >>> load("demo").select(["fixed", "none"])
        ['none', 'fixed']
        """
        if names is None:
            return list(self.rows)
        if not names:
            raise RelposError(f"table {self.name}: rows=[]: no row.{nearest('', self.rows)}")
        for name in names:
            refuse_unknown(f"table {self.name}: unknown row", name, self.rows)
        return [name for name in self.rows if name in names]


def load(table: str, changes: Mapping[str, object] | None = None) -> Experiment:
    """Reads and checks an experiment file.

    Args:
        table: a name in `experiments/`, or the path of a YAML file.
        changes: keys that replace those of the file.

    Raises:
        RelposError: there is no such file, or something in it is wrong.

    >>> load("demo").tasks
    ['cola', 'sst2']
    """
    path = _find(table)
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise RelposError(f"{path}: a mapping is expected (question, rows, tasks, …)")
    try:
        # The command line's keys are checked by the rules of the file.
        return _experiment(path, content | dict(changes or {}))
    except RelposError as error:
        if str(error).startswith(str(path)):
            raise
        raise RelposError(f"{path}: {error}") from error


def _experiment(path: Path, content: Plain) -> Experiment:
    """The content of a file, checked and converted."""
    for key in content:
        refuse_unknown("unknown key", key, list(rules(Experiment))[1:])
    # `tasks:` without a value is null in YAML, and counts as absent.
    values = {key: value for key, value in content.items() if value is not None}
    for key in {"parameters", "properties"} & values.keys():  # nothing is trained
        values |= {"rows": {str(values[key]): []}, "tasks": []}
    for key in ("question", "rows", "tasks"):
        if key not in values or (key != "tasks" and not values[key]):
            raise RelposError(f"{key} is missing")
    for key, value in values.items():
        if key in ("rows", "stages") and isinstance(value, dict):
            values[key] = {
                str(name): _overrides(f"{key}.{name}", overrides, path.parent)
                for name, overrides in value.items()
            }
        elif key == "base":
            values[key] = _overrides(key, value, path.parent)
        elif key in ("seeds", "pretrain_seeds"):
            values[key] = _seeds(key, value)
        elif key == "baseline" and isinstance(value, str):
            values[key] = [value]
        elif key == "server" and isinstance(value, dict):
            _check_server(value)
    experiment: Experiment = checked(Experiment)(path, **values)
    for name in experiment.rows:
        is_plain = name.isprintable() and not {*"/\\"} & {*name} and name == name.strip()
        if not is_plain or not 0 < len(name) <= LONGEST_NAME:
            raise RelposError(
                f"rows: {name[:LONGEST_NAME]!r}: a name of at most {LONGEST_NAME} "
                f"signs without / and \\, and without spaces around it, is expected"
            )
    for name in experiment.stages:
        refuse_unknown("stages: unknown stage", name, STAGES)
    _check_order(experiment)
    for key in ("baseline", "choices", "server"):
        for name in values.get(key, ()):
            refuse_unknown(f"{key}: unknown row", name, experiment.rows)
    return replace(experiment, tasks=[_task(name, path.parent) for name in experiment.tasks])


def _find(table: str) -> Path:
    if table.endswith((".yaml", ".yml")) or "/" in table:
        path = expanded(table)
        if not path.is_file():
            raise RelposError(f"table={table}: there is no such file")
        table_folder(path.stem)  # refuses a name that is none for a folder
        return path
    files = {path.stem: path for path in shipped("experiments").glob("*.yaml")}
    if table not in files:
        raise RelposError(
            f"unknown table {table!r}.{nearest(table, files)} One of your own is "
            f"named by its file: table=FILE.yaml."
        )
    return files[table]


def _seeds(key: str, value: object) -> list[int]:
    """The seeds of a key: a list, or the numbers below n."""
    # The annotation of the field allows lists alone.
    check(key, value, Seeds)
    seeds = [*range(value)] if isinstance(value, int) else cast("list[int]", value)
    if not seeds:
        raise RelposError(f"{key}: a seed is expected, as in [0, 1, 2]")
    # Two runs of one identity would count as two seeds with the same result.
    if len(set(seeds)) < len(seeds):
        raise RelposError(f"{key}: a seed is given twice")
    return seeds


def _task(name: str, folder: Path) -> str:
    """The name of a task of conf/task, or the absolute path of a user's task file.

    The file has the path from the folder of the experiment file; a relative path would depend on
    the working directory.
    """
    if is_task_file(name):
        return str((folder / expanded(name)).resolve())
    refuse_unknown("tasks: unknown task", name, set(options()["task"]) - {"custom"})
    return name


def _check_server(server: Mapping[str, Mapping[str, float]]) -> None:
    """Refuses values that are no scores; the message names row and column."""
    for row, scores in server.items():
        check(f"server.{row}", scores, dict[str, object])
        for column, score in scores.items():
            refuse_unknown(f"server.{row}: unknown column", column, SERVER_COLUMNS)
            check(f"server.{row}.{column}", score, ServerScore)
        # A single score may be below 1; if all are, they are fractions. Zero is the same in both
        # scales.
        if any(scores.values()) and all(abs(score) <= 1 for score in scores.values()):
            raise RelposError(f"server.{row}: scores are × 100, as in cola: 41.2, not cola: 0.412")


def _check_order(experiment: Experiment) -> None:
    """Refuses unknown measures, and overrides of a stage that measures nothing."""
    measures_at_end = [measure.name for measure in measures() if measure.at_end]
    for name in experiment.order:
        refuse_unknown("order: unknown measure", name, measures_at_end)
    for stage in MEASURING:
        if stage in experiment.stages and not experiment.order:
            raise RelposError(
                f"stages.{stage}: nothing is measured without the key order, as in "
                f"order: [shuffle, pairs]"
            )


def _overrides(key: str, overrides: list[str] | None, folder: Path) -> list[str]:
    """The overrides under a key of a file in this folder; empty for an empty key."""
    overrides = overrides or []
    if not isinstance(overrides, list):
        raise RelposError(f"{key}: a list of overrides is expected, as in [position=none, k=8]")
    for override in overrides:
        if not isinstance(override, str) or not override.partition("=")[1]:
            raise RelposError(f"{key}: {override!r} is not an override (key=value)")
    try:
        # A stranger's experiment file must not run code of its choosing.
        refuse_names(overrides)
    except RelposError as error:
        raise RelposError(f"{key}: {error}") from None
    return [_with_task_file(override, folder) for override in overrides]


def _with_task_file(override: str, folder: Path) -> str:
    """The override; in `intermediate=FILE.yaml` the path from the experiment file's folder becomes
    absolute."""
    key, _, value = override.partition("=")
    is_intermediate = key_of(override).removesuffix(".task").rpartition(".")[2] == "intermediate"
    if not is_intermediate or not is_task_file(name := value.strip("'\"")):
        return override
    return f"{key}={spelled(str((folder / expanded(name)).resolve()))}"


def of_stage(stage: str, overrides: Iterable[str]) -> list[str]:
    """The overrides that reach one stage, without the stage's name before them."""
    other_stages = tuple(f"{name}." for name in STAGES if name != stage)
    return [
        override.removeprefix(f"{stage}.")
        for override in overrides
        if not override.startswith(other_stages)
    ]


def overrides_of(stage: str, experiment: Experiment, overrides: Iterable[str]) -> list[str]:
    """The overrides that reach one stage, without prefixes: those of all rows, those of the stage,
    then `overrides`.

    Later ones win.

    >>> table = Experiment(Path("t.yaml"), "?", rows={}, tasks=[], base=["size=tiny"], stages={"finetune": ["steps=5"]})
    >>> overrides_of("finetune", table, ["pretrain.steps=9", "finetune.batch=8", "position=fixed"])
    ['size=tiny', 'steps=5', 'batch=8', 'position=fixed']
    """
    return of_stage(stage, [*experiment.base, *experiment.stages.get(stage, []), *overrides])


def experiments() -> list[Experiment]:
    """The experiment files that ship with the package."""
    return [load(path.stem) for path in sorted(shipped("experiments").glob("[!_]*.yaml"))]


def pilot_seeds(files: Collection[Experiment]) -> set[int]:
    """The pre-training seeds of the tables in which rates were chosen; other tables name these
    tables by `tuned`.

    Compared rows are trained with other seeds than those that chose their rates, at every scale.
    """
    tables = {experiment.tuned for experiment in files}
    choosing = (experiment for experiment in files if experiment.name in tables)
    return {seed for experiment in choosing for seed in experiment.pretrain_seeds or ()}


def printed_numbers(experiment: Experiment) -> dict[str, dict[str, float]]:
    """Row → column → the paper's number, from the CSV that an experiment names; its heads are
    `COLUMN` or `COLUMN_mean`.

    Raises:
        RelposError: there is no such file, it lies elsewhere, or it is no CSV with a column `row`.
    """
    if experiment.printed is None:
        return {}
    path = experiment.folder / experiment.printed
    # A stranger's file must not show the user's other files.
    if not path.resolve().is_relative_to(experiment.folder.resolve()):
        raise RelposError(
            f"table {experiment.name}: printed: {path} lies outside the folder of "
            f"the experiment file"
        )
    if not path.is_file():
        raise RelposError(f"table {experiment.name}: printed: there is no file {path}")
    try:
        return {
            line["row"]: _numbers(line)
            for line in csv.DictReader(read_text(path).splitlines(keepends=True))
        }
    # lines of other lengths than the head
    except (KeyError, ValueError, AttributeError, TypeError, csv.Error) as error:
        raise RelposError(
            f"table {experiment.name}: printed: {path} is no CSV with a column 'row' and numbers"
        ) from error


def _numbers(line: dict[str, str]) -> dict[str, float]:
    result = {}
    for key, text in line.items():
        # Names, remarks and empty fields are no numbers.
        with suppress(ValueError):
            result[key.removesuffix("_mean")] = float(text)
    return result

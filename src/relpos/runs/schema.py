"""What every key of a configuration may hold: its kind and its range.

Beside a `_target_` the annotations of that class's constructor say so, and here the annotations of one class a command do for all
other keys. Hydra's own structured configs would write 0.0 where the user wrote 0, another identity, and know no ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypedDict, get_args, get_origin, is_typeddict

from hydra.utils import get_object

from relpos.errors import RelposError, nearest
from relpos.ranges import Count, Length, Natural, NotNegative, Positive, Rate, between, check, rules, shown

Names = str | Sequence[str]
"""One name or a list of them."""


@dataclass(frozen=True)
class Arguments:
    """Marks a group without a `_target_` whose keys are arguments of this class; those of `more` are its keys besides."""

    target: str
    more: type | None = None


@dataclass(frozen=True)
class As:
    """Marks a dial whose annotation lies elsewhere under this name; it is imported when it is asked for."""

    name: str


Packing = Annotated[str, As("relpos.data.store.Packing")]
Precision = Annotated[str, As("relpos.model.precision.Precision")]
Kernel = Annotated[str, As("relpos.model.kernels.Name")]
Outside = Annotated[str, As("relpos.model.position.base.Outside")]


class RecipeDials(TypedDict):
    """What a recipe says besides the arguments of `Recipe`: defaults of dials at the top level."""

    steps: Count | None
    epochs: Positive | None
    batch: Count
    head: Annotated[str, As("relpos.model.heads.ClassifierKind")]


Size = Annotated[dict[str, Any], Arguments("relpos.model.encoder.Encoder")]
RecipeKeys = Annotated[dict[str, Any], Arguments("relpos.train.optim.Recipe", RecipeDials)]


class Speed(TypedDict):
    accelerator: Literal["auto", "cpu", "gpu"]
    kernel: Kernel
    devices: Count
    nodes: Count
    microbatch: Literal["auto"] | Count
    threads: Count | None
    profiler: Literal["simple", "advanced", "pytorch"] | None
    detect_anomaly: bool
    graphs: bool
    deterministic: bool


class Network(TypedDict):
    size: Size
    position: dict[str, Any]
    conv: dict[str, Any]
    vocabulary: Count
    k: Natural
    outside: Outside
    kernels: Natural


class Cost(Network):
    recipe: RecipeKeys
    speed: Speed
    steps: Count
    batch: Count
    precision: Precision
    length: Length
    seconds: NotNegative


class First(TypedDict):
    share: Rate
    length: Length
    batch: Count


class Training(Network):
    stage: str
    data: dict[str, Any]
    recipe: RecipeKeys
    speed: Speed
    logger: dict[str, Any]
    batch: Count
    seed: Natural
    precision: Precision
    length: Length
    snapshots: Sequence[Annotated[int, between(1, 100)]]
    evaluations: Count
    checkpoint_every: Count
    log_every: Count
    debug: bool


class Pretrain(Training):
    pretrained: str | None
    steps: Count
    packing: Packing
    first: First


class StartingPoint(TypedDict):
    """The keys `pretrain.…` of a fine-tuning."""

    recipe: RecipeKeys
    steps: Count
    batch: Count
    seed: Natural
    precision: Precision
    packing: Packing
    first: First


class Change(TypedDict):
    positions: Literal["keep", "remove"]
    tisa: Natural
    start: Literal["regression", "random"]
    reused: bool


class Intermediate(TypedDict):
    task: str | None
    steps: Count | None


Finetune = TypedDict(
    "Finetune",
    {
        "task": dict[str, Any],
        "from": str | None,
        "pretrained": str | None,
        "pretrain": StartingPoint,
        "intermediate": Intermediate,
        "change": Change,
        "head": Annotated[str, As("relpos.model.heads.ClassifierKind")],
        "steps": Count | None,
    },
)


class Data(TypedDict):
    stage: str
    data: dict[str, Any]
    vocabulary: Count


class Params(Network):
    table: str | None


Draw = TypedDict("Draw", {"all": bool, "from": str | None, "layer": Count, "heads": Count, "length": Count})
Lengths = TypedDict("Lengths", {"from": Names, "lengths": Sequence[Length], "tokens": Count, "threads": Count | None})

Measure = Literal["shuffle", "pairs", "probes", "attention"]
Order = TypedDict(
    "Order",
    {
        "from": Names | None,
        "table": str | None,
        "pairs": dict[str, Any],
        "measure": Measure | Sequence[Measure] | None,
        "examples": Count,
        "form": Literal["within_word", "plain"],
        "curves": bool,
        "store": str | None,
        "accelerator": Literal["auto", "cpu", "gpu"],
        "threads": Count | None,
    },
)


class Analyze(TypedDict):
    kind: dict[str, Any]
    run: Names | None
    pretrained: Names | None
    text: str | None
    threads: Count | None


class Figures(TypedDict):
    paper: Literal["chang2021", "wennberg2021"]
    pretrained: Names | None
    text: str | None
    threads: Count | None


class Plan(TypedDict):
    table: str
    rows: Names | None
    words: Sequence[str]


class Fill(TypedDict):
    text: Names
    run: str
    top: Count
    json: bool


class Score(TypedDict):
    text: Names
    run: str
    form: Literal["within_word", "plain"]
    json: bool


class Compare(TypedDict):
    runs: Names
    examples: Count


class Export(TypedDict):
    run: str
    to: str


class Reproduce(Plan):
    engine: dict[str, Any]
    stages: Names | None
    workers: Count | None
    retries: Natural
    dry_run: bool


class Status(Plan):
    every: Positive


class Noop(TypedDict):
    stage: str
    seed: Natural
    label: str | None
    seconds: NotNegative
    failures: Natural


class Claims(TypedDict):
    paper: str
    ids: Names | None


Merge = TypedDict("Merge", {"from": Names, "weights": bool})


class Submit(TypedDict):
    table: str
    row: str
    allow_missing: bool


class Dashboard(TypedDict):
    table: str | None
    spec: str | None
    project: str
    entity: str | None
    mode: Literal["auto", "online", "offline"]


class RecordScores(TypedDict):
    """The scores themselves are checked by the command: a column decides about its range."""

    table: str
    row: str


COMMANDS: dict[str, tuple[Any, ...]] = {
    "pretrain": (Pretrain,),
    "finetune": (Training, Finetune),
    "data": (Data,),
    "params": (Params,),
    "cost": (Cost,),
    "draw": (Network, Draw),
    "analyze": (Analyze,),
    "figures": (Figures,),
    "length": (Lengths,),
    "order": (Order,),
    "fill": (Fill,),
    "score": (Score,),
    "compare": (Compare,),
    "export": (Export,),
    "reproduce": (Reproduce,),
    "status": (Status,),
    "claims": (Claims,),
    "merge": (Merge,),
    "submit": (Submit,),
    "record-scores": (RecordScores,),
    "dashboard": (Dashboard,),
    "noop": (Noop,),
}


SHORT = {"intermediate": "task"}
"""Groups that may be given as one word, which is meant for this key: `intermediate=none`."""


@cache
def keys_of(command: str) -> dict[str, Any]:
    """Key → annotation, at the top level of a command's configuration."""
    return {key: annotation for part in COMMANDS.get(command, ()) for key, annotation in rules(part).items()}


def mistakes(plain: Mapping[str, Any], command: str) -> Iterator[tuple[str, RelposError]]:
    """Every value that its key may not hold, with the key."""
    yield from _mistakes(plain, keys_of(command), "")


def _mistakes(values: Mapping[str, Any], annotations: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, RelposError]]:
    for key, value in values.items():
        path, annotation = f"{prefix}{key}", annotations.get(key, Any)
        if isinstance(value, Mapping) and "_target_" in value:
            yield from _of_target(value, path)
        elif isinstance(value, Sequence) and any(isinstance(item, Mapping) and "_target_" in item for item in value):
            for number, item in enumerate(value):
                if isinstance(item, Mapping) and "_target_" in item:
                    yield from _of_target(item, f"{path}.{number}")
        elif group := _group(annotation):
            if isinstance(value, Mapping):
                yield from _mistakes(value, group, f"{path}.")
            else:
                names = ", ".join(f"{path}.{name}" for name in group)
                yield path, RelposError(f"{path}={shown(value)}: it has keys of its own, {names}")
        elif not key.startswith("_"):
            try:
                check(path, value, _resolved(annotation))
            except RelposError as error:
                yield path, error


def _group(annotation: Any) -> Mapping[str, Any]:
    """The keys of a group that has no `_target_`; empty where the annotation is not of a group."""
    if is_typeddict(annotation):
        return rules(annotation)
    for mark in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
        if isinstance(mark, Arguments):
            return {**rules(get_object(mark.target)), **(rules(mark.more) if mark.more else {})}
    return {}


def _resolved(annotation: Any) -> Any:
    """The annotation, or the one that lies elsewhere (`As`)."""
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((get_object(mark.name) for mark in marks if isinstance(mark, As)), annotation)


def _of_target(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, RelposError]]:
    """The keys beside a `_target_` are arguments of that constructor."""
    import inspect

    try:
        target = get_object(node["_target_"])
        parameters = inspect.signature(target).parameters
    except Exception as error:
        why = f"cannot import {node['_target_']!r} ({error.__cause__ or error})".split("\n")[0]
        yield f"{path}._target_", RelposError(f"{path}._target_: {why}")
        return
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        for key in node:
            if not key.startswith("_") and key not in parameters:
                yield f"{path}.{key}", RelposError(f"unknown key '{path}.{key}'.{nearest(key, parameters)}")
    yield from _mistakes(node, rules(target), f"{path}.")

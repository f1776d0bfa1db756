"""What every key of a configuration may hold: its kind and its range.

Keys beside a `_target_` are arguments of that class, and its constructor's annotations say what they may hold. For all other keys
the classes below say it, see `COMMANDS`. Hydra's own structured configs are not used: they would write 0.0 where the user wrote 0,
which is another identity, and they know no ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from relpos.ranges import Batch, Count, Length, Natural, NotNegative, Positive, Rate, Seeds, Threads, Width, between

Names = str | Sequence[str]
"""One name or a list of them."""


@dataclass(frozen=True)
class Arguments:
    """Marks a group without a `_target_` whose keys are arguments of the class `target`, and the keys of the TypedDict `more`."""

    target: str
    more: type | None = None


@dataclass(frozen=True)
class As:
    """Marks a dial whose annotation has this dotted name in another module, which is imported only when it is needed."""

    name: str


Packing = Annotated[str, As("relpos.data.store.Packing")]
Precision = Annotated[str, As("relpos.model.precision.Precision")]
Kernel = Annotated[str, As("relpos.model.kernels.Name")]
Outside = Annotated[str, As("relpos.model.position.base.Outside")]


class RecipeDials(TypedDict):
    """What a recipe says besides the arguments of `Recipe`: defaults of dials at the top level."""

    steps: Count | None
    epochs: Positive | None
    batch: Batch
    head: Annotated[str, As("relpos.model.heads.ClassifierKind")]


Size = Annotated[dict[str, Any], Arguments("relpos.model.encoder.Encoder")]
RecipeKeys = Annotated[dict[str, Any], Arguments("relpos.train.optim.Recipe", RecipeDials)]


class Speed(TypedDict):
    accelerator: Literal["auto", "cpu", "gpu"]
    kernel: Kernel
    devices: Count
    nodes: Count
    microbatch: Literal["auto"] | Count
    threads: Threads | None
    profiler: Literal["simple", "advanced", "pytorch"] | None
    detect_anomaly: bool
    graphs: bool
    deterministic: bool


class Network(TypedDict):
    size: Size
    position: dict[str, Any]
    conv: dict[str, Any]
    vocabulary: Width
    k: Natural
    outside: Outside
    kernels: Natural


class Cost(Network):
    recipe: RecipeKeys
    speed: Speed
    steps: Count
    batch: Batch
    precision: Precision
    length: Length
    seconds: NotNegative


class First(TypedDict):
    share: Rate
    length: Length
    batch: Batch


class Training(Network):
    stage: str
    data: dict[str, Any]
    recipe: RecipeKeys
    speed: Speed
    logger: dict[str, Any]
    batch: Batch
    seed: Natural
    precision: Precision
    length: Length
    snapshots: Sequence[Annotated[int, between(1, 100)]]
    evaluations: Count
    checkpoint_every: Count
    log_every: Count
    debug: bool


class Pretrain(Training):
    network: str | None
    steps: Count
    packing: Packing
    first: First


class StartingPoint(TypedDict):
    """The keys `pretrain.…` of a fine-tuning."""

    recipe: RecipeKeys
    steps: Count
    batch: Batch
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


class Finetune(TypedDict):
    task: dict[str, Any]
    network: str | None
    pretrain: StartingPoint
    intermediate: Intermediate
    change: Change
    head: Annotated[str, As("relpos.model.heads.ClassifierKind")]
    steps: Count | None


class Data(TypedDict):
    stage: str
    data: dict[str, Any]
    vocabulary: Width


class Params(Network):
    table: str | None
    network: str | None


class Draw(TypedDict):
    all: bool
    network: str | None
    layer: Count
    heads: Count
    length: Count


class Lengths(TypedDict):
    network: Names
    lengths: Sequence[Length]
    tokens: Count
    threads: Threads | None


class Order(TypedDict):
    network: Names | None
    table: str | None
    pairs: dict[str, Any]
    measure: Names | None
    examples: Count
    form: Literal["within_word", "plain"]
    curves: bool
    store: str | None
    accelerator: Literal["auto", "cpu", "gpu"]
    threads: Threads | None


class Analyze(TypedDict):
    kind: dict[str, Any]
    network: Names | None
    text: str | None
    threads: Threads | None


class Figures(TypedDict):
    paper: Literal["chang2021", "wennberg2021"]
    network: Names | None
    text: str | None
    threads: Threads | None


class Plan(TypedDict):
    table: str
    rows: Names | None
    overrides: Sequence[str]


class Fill(TypedDict):
    text: Names
    network: str
    top: Count
    json: bool


class Score(TypedDict):
    text: Names
    network: str
    form: Literal["within_word", "plain"]
    json: bool


class Compare(TypedDict):
    network: Names
    examples: Count


class Export(TypedDict):
    network: str
    to: str


class Reproduce(Plan):
    engine: dict[str, Any]
    stages: Names | None
    seeds: Seeds | None
    pretrain_seeds: Seeds | None
    tasks: Names | None
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
    network: Names | None


class Merge(TypedDict):
    folders: Names
    weights: bool


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

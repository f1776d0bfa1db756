"""Types and ranges of the keys that several commands and stages share.

Keys beside a `_target_` are arguments of that class, and the annotations of its constructor check
them. The other keys are arguments of the command's function, or fields of the dataclass as which a
stage sees its configuration. Hydra's own structured configs are not used: they would write 0.0
where the user wrote 0, which is another identity, and they have no ranges.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from relpos.model.architecture import Size
from relpos.ranges import (
    Arguments,
    As,
    Batch,
    Count,
    Length,
    Natural,
    Node,
    Rate,
    Threads,
    Width,
    between,
)
from relpos.readers import Plain

if TYPE_CHECKING:
    from relpos.data.store import Packing
    from relpos.data.tokenizer import Kind
    from relpos.model.kernels import Name as Kernel
    from relpos.model.position.base import Outside
    from relpos.model.precision import Precision
    from relpos.train.optim import RecipeKeys
else:  # these modules load torch, which readers of runs do without
    Packing = Annotated[str, As("relpos.data.store:Packing")]
    Kind = Annotated[str, As("relpos.data.tokenizer:Kind")]
    Kernel = Annotated[str, As("relpos.model.kernels:Name")]
    Outside = Annotated[str, As("relpos.model.position.base:Outside")]
    Precision = Annotated[str, As("relpos.model.precision:Precision")]
    RecipeKeys = Annotated[dict, As("relpos.train.optim:RecipeKeys")]

WATCHING = ("pytorch_lightning.callbacks.lr_monitor.LearningRateMonitor",)
"""Callbacks that do not change a result."""


@dataclass(frozen=True)
class Speed:
    """The keys `speed.…`, which change no result."""

    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    kernel: Kernel = "auto"
    devices: Count = 1
    nodes: Count = 1
    microbatch: Literal["auto"] | Count = "auto"
    threads: Threads | None = None
    graphs: bool = True
    deterministic: bool = False


@dataclass(frozen=True)
class Pieces:
    """The keys `tokenizer.…`."""

    file: str | None = None
    kind: Kind = "unigram"
    cased: bool = False
    byte_fallback: bool = False


@dataclass(frozen=True)
class Trainer:
    """Switches of Lightning's Trainer for which relpos has no key of its own."""

    profiler: Literal["simple", "advanced"] | None = None
    detect_anomaly: bool = False
    overfit_batches: Natural = 0
    fast_dev_run: bool = False


@dataclass(frozen=True)
class First:
    """A first phase of a training with shorter text; without a packing it has the later phase's."""

    share: Rate = 0.0
    length: Length = 128
    batch: Batch = 1
    packing: Packing | None = None


@dataclass(frozen=True)
class Change:
    """Other positions for the network that a training starts from; by default its own."""

    positions: Literal["keep", "remove"] = "keep"
    tisa: Natural = 0
    start: Literal["regression", "random"] = "regression"
    reused: bool = False

    @property
    def meaning(self) -> Plain:
        """The keys that are read; empty where nothing is changed."""
        if self.tisa:
            return asdict(self)
        return {"positions": "remove"} if self.positions == "remove" else {}

    @property
    def name(self) -> str:
        """How a run's folder says what was changed: `-removed+tisa3`; empty where nothing was."""
        removed = "-removed" if self.positions == "remove" else ""
        return removed + (f"+tisa{self.tisa}" if self.tisa else "")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What a run of any stage may be asked for; the stage has further keys.

    Args:
        table, row: that the run was planned for.
        scheme: the word that was typed for `position`.
        data: a node that describes a source of text.
        vocabulary: of a tokenizer.
    """

    table: str | None = None
    row: str | None = None
    scheme: str | None = None
    data: Plain | None = None
    vocabulary: Width | None = None
    seed: Natural | None = None
    steps: Natural | None = None
    speed: Speed | None = None
    snapshots: list[Annotated[int, between(1, 100)]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Keys of which a fine-tuning has values of its own, besides those of its pre-training."""

    recipe: RecipeKeys
    batch: Batch
    seed: Natural
    precision: Precision


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Phase, RunConfig):
    """What pre-training and fine-tuning are called with."""

    length: Length
    speed: Speed = Speed()
    logger: Plain = field(default_factory=dict)
    callbacks: Plain = field(default_factory=dict)
    trainer: Trainer = Trainer()
    change: Change = Change()
    first: First = First()
    evaluations: Count = 10
    checkpoint_every: Count | None = None
    log_every: Count = 50

    @property
    def shapes(self) -> list[tuple[float, int, int]]:
        """Share of the steps, batch and length of a first phase, where there is one, and of the
        rest."""
        first = self.first
        rest = (1 - first.share, self.batch, self.length)
        return [rest, *([(first.share, first.batch, first.length)] if first.share else [])]


class NetworkKeys(TypedDict):
    size: Annotated[Node, Arguments(Size)]
    position: Node
    conv: Node
    vocabulary: Width
    k: Natural
    outside: Outside
    kernels: Natural


class PlannedKeys(NetworkKeys):
    """Keys that the plan of a training reads, and the training does not."""

    data: Plain
    tokenizer: Pieces
    network: str | None
    metric: str | None

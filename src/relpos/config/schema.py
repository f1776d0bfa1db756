"""Types and ranges of the keys that several commands share.

Keys beside a `_target_` are arguments of that class, and the annotations of its constructor check
them. The other keys are arguments of the command's function; a function of a whole configuration,
`**config: Unpack[Pretrain]`, has them from here. Hydra's own structured configs are not used: they
would write 0.0 where the user wrote 0, which is another identity, and they have no ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

from relpos.ranges import (
    Arguments,
    As,
    Batch,
    Count,
    Length,
    Natural,
    Positive,
    Rate,
    Threads,
    Width,
    between,
)

Packing = Annotated[str, As("relpos.data.store:Packing")]
Precision = Annotated[str, As("relpos.model.precision:Precision")]
Kernel = Annotated[str, As("relpos.model.kernels:Name")]
Outside = Annotated[str, As("relpos.model.position.base:Outside")]


class RecipeDials(TypedDict):
    """Keys of a recipe besides the arguments of `Recipe`: defaults of keys at the top level."""

    steps: Count | None
    epochs: Positive | None
    batch: Batch
    head: Annotated[str, As("relpos.model.heads:ClassifierKind")]
    masking: Annotated[str, As("relpos.data.objective:Masking")]


Size = Annotated[dict[str, Any], Arguments("relpos.model.encoder:Encoder")]
RecipeKeys = Annotated[dict[str, Any], Arguments("relpos.train.optim:Recipe", RecipeDials)]


class Speed(TypedDict):
    accelerator: Literal["auto", "cpu", "gpu"]
    kernel: Kernel
    devices: Count
    nodes: Count
    microbatch: Literal["auto"] | Count
    threads: Threads | None
    graphs: bool
    deterministic: bool


class NetworkKeys(TypedDict):
    size: Size
    position: dict[str, Any]
    conv: dict[str, Any]
    vocabulary: Width
    k: Natural
    outside: Outside
    kernels: Natural


class Cost(NetworkKeys):
    recipe: RecipeKeys
    speed: Speed
    steps: Count
    batch: Batch
    precision: Precision
    length: Length


class Pieces(TypedDict):
    """The keys `tokenizer.…`."""

    file: str | None
    kind: Annotated[str, As("relpos.data.tokenizer:Kind")]
    cased: bool
    byte_fallback: bool


class Trainer(TypedDict):
    """Switches of Lightning's Trainer for which relpos has no key of its own."""

    profiler: Literal["simple", "advanced"] | None
    detect_anomaly: bool
    overfit_batches: Natural
    fast_dev_run: bool


class First(TypedDict):
    share: Rate
    length: Length
    batch: Batch
    packing: Packing


class Phase(TypedDict):
    """Keys of which a fine-tuning has values of its own, besides those of its pre-training."""

    recipe: RecipeKeys
    batch: Batch
    seed: Natural
    precision: Precision


class PretrainKeys(Phase):
    """The keys `pretrain.…` of a fine-tuning; they are also keys of a pre-training."""

    objective: dict[str, Any]
    steps: Count
    packing: Packing
    first: First


class TrainingKeys(NetworkKeys):
    data: dict[str, Any]
    tokenizer: Pieces
    speed: Speed
    logger: dict[str, Any]
    callbacks: dict[str, Any]
    trainer: Trainer
    metric: str | None
    length: Length
    snapshots: Sequence[Annotated[int, between(1, 100)]]
    evaluations: Count
    checkpoint_every: Count | None
    log_every: Count
    scheme: str  # in no file: the word for `position`, see `with_scheme`


class Change(TypedDict):
    positions: Literal["keep", "remove"]
    tisa: Natural
    start: Literal["regression", "random"]
    reused: bool


class Pretrain(TrainingKeys, PretrainKeys):
    stage: Literal["pretrain"]
    network: str | None
    change: Change


class Intermediate(TypedDict):
    task: str | None
    steps: Count | None


class Finetune(TrainingKeys, Phase):
    stage: Literal["finetune"]
    task: dict[str, Any]
    network: str | None
    pretrain: PretrainKeys
    intermediate: Intermediate
    change: Change
    head: Annotated[str, As("relpos.model.heads:ClassifierKind")]
    steps: Count | None


class Data(TypedDict):
    stage: Literal["store"]
    data: dict[str, Any]
    tokenizer: Pieces
    vocabulary: Width

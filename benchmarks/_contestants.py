"""Whole pre-training steps to be raced: ours and Hugging Face's, made from the same sizes, batches
and optimiser."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

import relpos
from relpos.model.dropout import seed_dropout
from relpos.model.kernels import library
from relpos.model.precision import autocast

VOCABULARY = 30_004


def keep_freed_memory() -> None:
    """What the library does for its process, before anything is measured, and for blocks of up to
    2 GB: without it a step of Hugging Face's BERT-small has 330,000 page faults, which take as long
    as the rest, or by chance none."""
    library.load(build=True)
    trim_threshold = -1
    ctypes.CDLL(None).mallopt(trim_threshold, (1 << 31) - 1)


def size_of(name: str) -> dict[str, Any]:
    """The keys of `size=NAME`."""
    content: dict[str, Any] = yaml.safe_load(
        (Path(__file__).parents[1] / "conf" / "size" / f"{name}.yaml").read_text("utf-8")
    )
    return content


def split_size(overrides: Sequence[str]) -> tuple[str, list[str]]:
    """The size that the overrides name, `small` where they name none, and the other overrides."""
    sizes = [
        override.removeprefix("size=") for override in overrides if override.startswith("size=")
    ]
    return (sizes or ["small"])[0], [
        override for override in overrides if not override.startswith("size=")
    ]


@dataclass(frozen=True)
class Batch:
    input_ids: Tensor  # (b, n)
    labels: Tensor  # (b, n), −100 = not predicted
    attention_mask: Tensor | None = None  # (b, n); None: all real


def full_batch(rows: int = 16, n: int = 128) -> Batch:
    """Random tokens, every one real, 15 % predicted."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, VOCABULARY, (rows, n), generator=generator)
    chosen = torch.rand(rows, n, generator=generator) < 0.15
    return Batch(ids, ids.masked_fill(~chosen, -100))


def contestant(name: str) -> Callable[[Sequence[Batch]], float]:
    """A function that takes one step on some micro-batches and returns the loss.

    Args:
        name: `ours/<overrides>/<precision>`, where a name alone is a position scheme and `kernel=…`
            an attention kernel, or `hf/<attention>/<precision>`. Either may have `size=…` among the
            overrides; `small` by default.
    """
    side, kind, precision = name.split("/")
    torch.manual_seed(0)
    size, overrides = split_size(kind.split())
    return (
        ours(size, overrides, precision)
        if side == "ours"
        else hugging_face(size, overrides[0], precision)
    )


def ours(size: str, overrides: Sequence[str], precision: str) -> Callable[[Sequence[Batch]], float]:
    model = network(*overrides, f"size={size}", f"vocabulary={VOCABULARY}").train()
    seeds = iter(range(1 << 30))

    def loss(batch: Batch, chosen: int) -> Tensor:
        seed_dropout(model, next(seeds))
        with autocast(precision, "cpu"):
            return model.loss_sum(batch.input_ids, batch.labels, batch.attention_mask)[0] / chosen

    return _step(model, loss, model.encoder.position.begin_step)


def network(*overrides: str) -> Any:
    """Of the overrides of the command line; without `position=` it knows no positions. `kernel=…`
    names an attention kernel."""
    kernels = [
        override.removeprefix("kernel=") for override in overrides if override.startswith("kernel=")
    ]
    given = [
        override if "=" in override else f"position={override}"
        for override in overrides
        if not override.startswith("kernel=")
    ]
    model = relpos.build(relpos.compose("params", ["position=none", *given]))
    for kernel in kernels:
        parts: Iterable[Any] = model.modules()
        for part in parts:
            if hasattr(part, "kernel"):
                part.kernel = kernel
    return model


def hugging_face_config(size: str, attention: str, **keys: Any) -> Any:
    """Of BERT with these sizes; it has no factorised embeddings, so hidden stands for embedding."""
    from transformers import BertConfig

    sizes = size_of(size)
    own = {
        "vocab_size": keys.pop("vocabulary", VOCABULARY),
        "hidden_size": sizes["hidden"],
        "num_hidden_layers": sizes["layers"],
        "num_attention_heads": sizes["heads"],
        "intermediate_size": sizes["ffn"],
        "max_position_embeddings": sizes["max_positions"],
        "attn_implementation": attention,
    }
    return BertConfig(**(own | keys))


def bert(size: str, attention: str) -> Any:
    """`BertForMaskedLM` of these sizes."""
    from transformers import BertForMaskedLM

    return BertForMaskedLM(hugging_face_config(size, attention))


def hugging_face(size: str, attention: str, precision: str) -> Callable[[Sequence[Batch]], float]:
    """A step of `bert`."""
    model = bert(size, attention).train()

    def loss(batch: Batch, chosen: int) -> Tensor:
        with autocast(precision, "cpu"):
            mean = model(
                input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels
            ).loss
        return mean * (int(batch.labels.ne(-100).sum()) / chosen)

    return _step(model, loss)


def plain_loop(name: str) -> Callable[[Batch], None]:
    """The same step as anybody would write it: the mean loss under `torch.autocast`, AdamW as torch
    makes it, and nothing else."""
    side, kind, precision = name.split("/")
    torch.manual_seed(0)
    size, overrides = split_size(kind.split())
    model = (
        network(*overrides, f"size={size}", f"vocabulary={VOCABULARY}")
        if side == "ours"
        else bert(size, overrides[0])
    )
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-4)

    def step(batch: Batch) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            ours = side == "ours"
            loss = (
                model.loss(batch.input_ids, batch.labels)
                if ours
                else model(batch.input_ids, labels=batch.labels).loss
            )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _step(
    model: Any,
    loss: Callable[[Batch, int], Tensor],
    begin: Callable[[int], None] = lambda step: None,
) -> Callable[[Sequence[Batch]], float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    steps = iter(range(1 << 30))

    def step(batches: Sequence[Batch]) -> float:
        begin(next(steps))
        chosen = sum(int(batch.labels.ne(-100).sum()) for batch in batches)
        total = 0.0
        for batch in batches:
            part = loss(batch, chosen)
            part.backward()
            total += part.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return total

    return step


def flops(side: str, rows: int, n: int, predicted: int, size: str = "small") -> float:
    """Of one step: forward × 3, matrix products only, twice the multiplications. Ours computes what
    follows the last layer's attention at predicted tokens only."""
    sizes = size_of(size)
    d, ffn, layers = sizes["hidden"], sizes["ffn"], sizes["layers"]
    tokens = rows * n
    encoder = layers * (tokens * (4 * d * d + 2 * d * ffn) + 2 * tokens * n * d)
    if side == "hf":
        return 6.0 * (encoder + tokens * (d * d + d * VOCABULARY))
    encoder -= (tokens - predicted) * (d * d + 2 * d * ffn)
    e = sizes["embedding"]
    if e == d:
        return 6.0 * (encoder + predicted * (d * e + e * VOCABULARY))
    return 6.0 * (encoder + tokens * e * d + predicted * (d * e + e * VOCABULARY))

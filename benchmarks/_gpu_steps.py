"""Whole updates on a GPU, as a training makes them: ours and Hugging Face's. Nothing touches the
device on import."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import torch
from _contestants import VOCABULARY, bert, network
from _workers import side_by_side
from torch import Tensor, nn

from relpos.counter import counter_hash
from relpos.data.objective import Unmasked, masked
from relpos.data.passes import outputs
from relpos.data.steps import MicroBatch
from relpos.model.attention import kernels_used
from relpos.model.build import classifier_on
from relpos.model.heads import ReplacedTokens
from relpos.model.precision import autocast, casting_once
from relpos.train.optim import Recipe
from relpos.train.pretrain import Pretraining
from relpos.train.recorded import CudaGraphs, RecordedSteps, Recorder

Work = Callable[[], Any]


@cache
def device() -> torch.device:
    """A GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def need_gpu(script: str) -> None:
    """Refuses in one line where there is no GPU. Asked by a process of its own: one that has asked
    cannot be forked any more.

    Raises:
        SystemExit: there is none.
    """
    asked = side_by_side({"asked": lambda: {"found": torch.cuda.is_available()}}, 1, 60)
    if not next(asked)[1].get("found"):
        raise SystemExit(
            f"{script} needs a CUDA device and there is none; --rehearse runs it at "
            f"toy sizes on a CPU"
        )


def tokens(rows: int, n: int) -> Tensor:
    """(rows, n) random ids, the same each time."""
    return torch.randint(5, VOCABULARY, (rows, n), generator=torch.Generator().manual_seed(0)).to(
        device()
    )


@dataclass
class Ours:
    """Updates of a pre-training of random tokens, 15 % of them predicted, the same each time: a
    recorded pass, and clipping and fused AdamW, recorded too.

    Args:
        overrides: `none`, or those of the command line, such as `position=composite size.heads=8`.
        recorded: false: plain calls, as for FLOATER, whose passes change from step to step.
    """

    overrides: str
    rows: int
    n: int
    recorded: bool = True
    lr: float = 1e-4

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.model = (
            network(*self.overrides.split(), f"vocabulary={VOCABULARY}").to(device()).train()
        )
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.lr, fused=True)
        graphs = (
            self.recorded and device().type == "cuda" and self.model.encoder.position.same_each_step
        )
        training = Pretraining(
            self.model, Recipe(lr=self.lr, warmup=0), steps=1, seed=0, precision="bf16", log_every=1
        )
        self.step = RecordedSteps(training, CudaGraphs() if graphs else Recorder(), optimizer)
        lengths, keys = torch.full((self.rows,), self.n), counter_hash(torch.arange(self.rows))
        batch = Unmasked(tokens(self.rows, self.n).cpu(), lengths, keys, 0, VOCABULARY)
        seen, labels, _ = masked.of(batch)
        part = MicroBatch(
            seen, torch.ones_like(seen, dtype=torch.bool), labels, keys, at=outputs(labels, None)
        )
        self.chosen = part.chosen
        self.passes = [{name: value.to(device()) for name, value in part.inputs.items()}]
        self.numbers = count()

    def gradients(self, number: int) -> Tensor:
        """Adds those of the summed losses of an update to `step.gradients`. Returns these, on the
        device."""
        self.model.encoder.position.begin_step(number)
        return self.step.sums(number, self.passes)[0]

    def __call__(self) -> Tensor:
        """The mean loss of an update, on the device."""
        loss = self.gradients(next(self.numbers))
        self.step.update(self.chosen)
        return loss / self.chosen

    def kernels(self) -> str:
        """The attention kernels that ran, and whether passes were recorded."""
        recorded = (
            isinstance(self.step.passes.recorder, CudaGraphs)
            and self.step.passes.trusted
            and self.step.updates.trusted
        )
        return ", ".join([*kernels_used(self.model), *(["recorded"] if recorded else [])])


@dataclass
class Tuning:
    """Plain updates, as a fine-tuning makes them, of a classifier or of ELECTRA's discriminator."""

    overrides: str
    rows: int
    n: int
    head: str = "classifier"

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        network_of = network(*self.overrides.split(), f"vocabulary={VOCABULARY}")
        tuned: nn.Module = (
            classifier_on(network_of, 2, 0.1)
            if self.head == "classifier"
            else ReplacedTokens(network_of.encoder)
        )
        self.model = tuned.to(device()).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.ids = tokens(self.rows, self.n)
        self.mask = (
            torch.arange(self.n, device=device())[None]
            < torch.linspace(self.n / 2, self.n, self.rows, device=device())[:, None]
        )

    def __call__(self) -> Tensor:
        with casting_once("bf16", device()):
            with autocast("bf16", device()):
                y = self.model(self.ids, self.mask)
            if y.shape[-1] == 2:
                loss = nn.functional.cross_entropy(y.float(), self.ids[:, 0] % 2)
            else:
                loss = nn.functional.binary_cross_entropy_with_logits(
                    y.float(), (self.ids % 2).float(), self.mask.float()
                )
            loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def kernels(self) -> str:
        return ", ".join(kernels_used(self.model))


PEERS = ("eager", "sdpa", "compiled")


def hugging_face(size: str, kind: str, rows: int, n: int) -> Work:
    """`BertForMaskedLM` of the same sizes, whose embedding is as wide as its layers, with the same
    batch and optimiser."""
    torch.manual_seed(0)
    model = bert(size, "eager" if kind == "eager" else "sdpa").to(device()).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    called = torch.compile(model) if kind == "compiled" and device().type == "cuda" else model
    ids = tokens(rows, n)
    labels = ids.masked_fill(torch.rand(rows, n, device=device()) > 0.15, -100)

    def once() -> None:
        with torch.autocast(device().type, torch.bfloat16):
            called(input_ids=ids, labels=labels).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return once


def free() -> None:
    """Gives back what nothing refers to."""
    gc.collect()
    if device().type == "cuda":
        torch.cuda.empty_cache()

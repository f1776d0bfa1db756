"""The processes that share one training run, and what they tell each other.

Each holds a replica of the network and takes whole micro-batches of a step. Gradients are summed, not averaged: the loss of every
micro-batch has already been divided by the number of chosen tokens in the whole step, so the sum is, to rounding, the gradient that
one process would compute. All see the same sums, so replicas stay equal bit for bit.

Lightning's own wrapper is not used: it needs the same number of backward passes in every process, which a step need not have.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from relpos.errors import RelposError, one_line

PATIENCE = timedelta(days=14)
"""Timeout of small messages: the others may wait while the first process waits for another launcher to finish the run."""


class Broken(RelposError):
    """Another process of the group has ended."""


class Group:
    """One process among `world`. A group of one sends no messages and changes nothing.

    Args:
        rank: number of this process; 0 writes, the others only compute.
        world: how many there are.
        local: number of this process on its node.
    """

    def __init__(self, rank: int = 0, world: int = 1, local: int = 0) -> None:
        self.rank, self.world, self.local = rank, world, local
        # Plain numbers are exchanged over gloo, so that reading them does not wait for a GPU.
        self.control = dist.new_group(backend="gloo", timeout=PATIENCE) if world > 1 else None

    @property
    def first(self) -> bool:
        """Whether this process writes."""
        return self.rank == 0

    def sums(self, values: Sequence[float]) -> list[float]:
        """Each value summed over the processes, in float64.

        Raises:
            Broken: another process has ended.
        """
        if self.world == 1 or not values:
            return list(values)
        # float32 would round counts above 2^24, and steps are compared by their sums.
        numbers = torch.tensor([float(value) for value in values], dtype=torch.float64)
        _exchange(numbers, self.control)
        return numbers.tolist()

    def any(self, flag: bool) -> bool:
        """Whether the flag is true in any process."""
        return self.sums([flag])[0] > 0

    def agreed(self, flag: bool) -> bool:
        """The flag of the first process."""
        return self.any(flag and self.first)

    def sum_gradients(self, model: nn.Module) -> None:
        """Sums the gradients of all parameters in place, in one message.

        A parameter that got no gradient in any process keeps None, so that the optimiser skips it, as with one process.
        """
        if self.world == 1:
            return
        parameters = [p for p in model.parameters() if p.requires_grad]
        reached = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([reached, *(part.reshape(-1).float() for part in parts)])
        # None is the default group, NCCL where there are GPUs: gradients do not pass through the CPU.
        _exchange(flat, None)
        counts = flat[: len(parameters)].tolist()  # processes in which each parameter got a gradient
        sizes = [p.numel() for p in parameters]
        for p, part, count in zip(parameters, flat[len(parameters) :].split(sizes), counts, strict=True):
            p.grad = part.view_as(p).to(p.dtype) if count else None


def _exchange(values: Tensor, group: dist.ProcessGroup | None) -> None:
    try:
        dist.all_reduce(values, group=group)
    except RuntimeError as error:  # gloo: "Connection closed by peer"; NCCL: DistBackendError
        atexit.unregister(_leave)  # it would wait for the lost one
        raise Broken(f"another process of this run has ended ({one_line(error)})") from error


ALONE = Group()
_joined: Group | None = None


def join(rank: int, world: int, local: int, accelerator: str = "auto") -> Group:
    """Joins the group of processes that meet at `MASTER_ADDR` and `MASTER_PORT`. Later calls return the same group.

    Gradients travel over NCCL where there are GPUs, over gloo elsewhere and with accelerator `cpu`.
    """
    global _joined
    if _joined is None:
        gpus = torch.cuda.device_count() if accelerator != "cpu" else 0
        if gpus:
            # Modulo, because srun may show each process its own GPU alone, as number 0.
            torch.cuda.set_device(local % gpus)
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        dist.init_process_group("nccl" if gpus else "gloo", rank=rank, world_size=world)
        atexit.register(_leave)
        _joined = Group(rank, world, local)
    return _joined


def _leave() -> None:
    """Ends the threads of the process groups while Python still runs.

    They live as long as anything refers to their group, and one that lets go of a tensor when Python has begun to end aborts the
    process (pytorch/pytorch#190489).
    """
    if _joined:
        _joined.control = None
    dist.destroy_process_group()


def present() -> Group:
    """The group that this process has joined; `ALONE` where it has joined none."""
    return _joined or ALONE

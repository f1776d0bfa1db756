"""The processes that share one training run, and what they tell each other.

Each holds a replica of the network and takes whole micro-batches of a step. Gradients are summed, not averaged: the loss of every
micro-batch has already been divided by the number of chosen tokens in the whole step, so the sum is, to rounding, the gradient that
one process would compute. All see the same sums, so replicas stay equal bit for bit.

Lightning's own wrapper is not used: it needs the same number of backward passes in every process, which a step need not have.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from relpos.errors import RelposError, one_line
from relpos.process import number_in

PATIENCE = timedelta(minutes=30)
"""How long a process waits for a message of another one. None is longer at work between two: the longest are evaluations, and the
writing of checkpoints."""
MEETING = 120.0
"""Seconds that processes wait for one another at the beginning; imports from a busy file system take minutes."""
SOON = 10.0
"""Seconds after which one says that it waits."""


class Broken(RelposError):
    """Another process of the group has ended, or hangs."""


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

    def said(self, number: float = 0.0) -> float:
        """The number that the first process says."""
        return self.sums([number if self.first else 0.0])[0]

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
        ended = f"has been silent for {PATIENCE.total_seconds() / 60:.0f} minutes" if "imed out" in str(error) else "has ended"
        raise Broken(f"another process of this run {ended} ({one_line(error)})") from error


ALONE = Group()
_joined: Group | None = None


def join(rank: int, world: int, local: int, accelerator: str = "auto") -> Group:
    """Joins the group of processes that meet at `MASTER_ADDR` and `MASTER_PORT`. Later calls return the same group.

    Gradients travel over NCCL where there are GPUs, over gloo elsewhere and with accelerator `cpu`.

    Raises:
        RelposError: some of the others do not come.
    """
    global _joined
    if _joined is None:
        gpus = torch.cuda.device_count() if accelerator != "cpu" else 0
        if gpus:
            # Modulo, because srun may show each process its own GPU alone, as number 0.
            torch.cuda.set_device(local % gpus)
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        backend = "nccl" if gpus else "gloo"
        dist.init_process_group(backend, store=_met(rank, world), rank=rank, world_size=world, timeout=PATIENCE)
        atexit.register(_leave)
        _joined = Group(rank, world, local)
    return _joined


def _met(rank: int, world: int) -> dist.Store:
    """Where the processes leave each other the addresses of their connections; returned once all of them are there.

    Raises:
        RelposError: names those that did not come, and how long this one has waited.
    """
    address, port = os.environ["MASTER_ADDR"], number_in("MASTER_PORT", 0)
    what = f"process {rank} of {world} waits at {address}:{port} for"
    names = [str(other) for other in range(world)]
    # Whoever waits for the place itself is in torch's hands, and can say nothing.
    notice = threading.Timer(SOON, print, [f"relpos: {what} the others, {MEETING:.0f} seconds at most"], {"file": sys.stderr})
    notice.start()
    try:
        # torchrun holds the place in a process of its own.
        first = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        place = dist.TCPStore(address, port, world, first, timedelta(seconds=MEETING), wait_for_workers=False, multi_tenant=True)
        store = dist.PrefixStore(f"relpos {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", place)
        store.set(str(rank), "")
        deadline = time.monotonic() + MEETING
        while not store.check(names) and time.monotonic() < deadline:
            time.sleep(0.05)
        missing = [name for name in names if not store.check([name])]
    except (RuntimeError, ValueError) as error:  # torch has several classes of RuntimeError for its network
        raise RelposError(f"{what} process 0: none after {MEETING:.0f} seconds ({one_line(error)})") from error
    finally:
        notice.cancel()
    if missing:
        hint = "start as many as WORLD_SIZE or srun's -n says"
        raise RelposError(f"{what} {', '.join(missing)}: not there after {MEETING:.0f} seconds; {hint}")
    return store


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

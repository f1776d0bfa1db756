"""The processes that share one training run, and what they tell each other.

Each process holds a replica of the network and takes whole micro-batches of a step. Gradients are
summed, not averaged: the loss of every micro-batch has already been divided by the number of chosen
tokens in the whole step, so the sum is, to rounding, the gradient that one process would compute.
All processes see the same sums, so replicas stay equal bit for bit.

Lightning's own wrapper is not used: it needs the same number of backward passes in every process,
which a step need not have.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from relpos.errors import RelposError, one_line, say
from relpos.process import number_in

PATIENCE, LONG = 5 * 60, 30 * 60
"""Seconds that a process waits for a message of another one: within and between steps; and after
the beginning, an evaluation or a checkpoint, which may take longer in one process."""
DAY, SLICE = timedelta(days=1), timedelta(seconds=1)
"""Limits of gloo, which hears no signals: a process waits for a slice, again and again. Slices are
counted, and not the clock, because a cluster may suspend all processes for hours."""
MEETING = 120.0
"""Seconds that processes wait for one another at the beginning; imports from a busy file system
take minutes."""
SOON = 10.0
"""Seconds after which a process says that it waits; a minute where it waits for `LONG`."""


class Broken(RelposError):
    """Another process of the group has ended, or hangs."""


@dataclass(eq=False)
class Group:
    """One process among `world`. A group of one sends no messages and changes nothing.

    Args:
        rank: number of this process; 0 writes, the others only compute.
        world: number of processes.
        local: number of this process on its node.
        store: where the processes have met.
        messages: number of messages so far.
        waits: whether this process has waited for others for so long that it has said so.
    """

    rank: int = 0
    world: int = 1
    local: int = 0
    store: dist.Store | None = None
    messages: int = 0
    waits: bool = False

    def __post_init__(self) -> None:
        # Plain numbers are exchanged over gloo, so that reading them does not wait for a GPU.
        self.control = dist.new_group(backend="gloo", timeout=DAY) if self.world > 1 else None

    @property
    def first(self) -> bool:
        """Whether this process writes."""
        return self.rank == 0

    def sums(self, values: Sequence[float], patience: int = PATIENCE) -> list[float]:
        """Each value summed over the processes, in float64.

        Raises:
            Broken: another process has ended, or has been silent for `patience` seconds.
        """
        if self.world == 1 or not values:
            return list(values)
        # float32 would round counts above 2^24, and steps are compared by their sums.
        numbers = torch.tensor([float(value) for value in values], dtype=torch.float64)
        self._exchange(numbers, self.control, patience)
        return numbers.tolist()

    def broadcast(self, number: float = 0.0) -> float:
        """The number of the first process, which may have been busy for long."""
        return self.sums([number if self.first else 0.0], LONG)[0]

    def sum_gradients(self, model: nn.Module) -> None:
        """Sums the gradients of all parameters in place, in one message.

        A parameter that got no gradient in any process keeps None, so that the optimiser skips it,
        as with one process.
        """
        if self.world == 1:
            return
        parameters = [p for p in model.parameters() if p.requires_grad]
        reached = torch.tensor(
            [float(p.grad is not None) for p in parameters], device=parameters[0].device
        )
        parts = [reached]
        for p in parameters:
            grad = torch.zeros_like(p) if p.grad is None else p.grad
            parts.append(grad.reshape(-1).float())
        flat = torch.cat(parts)
        # None is the default group, NCCL where there are GPUs: gradients do not pass through the
        # CPU.
        self._exchange(flat, None, PATIENCE)
        # counts: of the processes in which a parameter got a gradient
        counts, *sums = flat.split([len(parameters), *(p.numel() for p in parameters)])
        for p, part, count in zip(parameters, sums, counts.tolist(), strict=True):
            p.grad = part.view_as(p).to(p.dtype) if count else None

    def _exchange(self, values: Tensor, group: dist.ProcessGroup | None, patience: int) -> None:
        self.messages += 1
        try:
            work = dist.all_reduce(values, group=group, async_op=True)
            # NCCL's `wait` only waits on the GPU; the sums before it, over gloo, have shown that
            # all processes are there.
            missing = (
                []
                if dist.get_backend(group) == "nccl" and work.wait()
                else self._await(work, patience)
            )
        except RuntimeError as error:  # gloo: "Connection closed by peer"; NCCL: DistBackendError
            atexit.unregister(_leave)  # it would wait for the lost process
            raise Broken(f"another process of this run has ended ({one_line(error)})") from error
        if missing:
            atexit.unregister(_leave)
            raise Broken(
                f"process {', '.join(map(str, missing))} of this run has been silent for "
                f"{patience // 60} minutes"
            )

    def _await(self, work: dist.Work, patience: int) -> list[int]:
        """Waits until a message is exchanged; returns the processes that are missing after
        `patience` seconds."""
        soon, missing = round(SOON if patience < LONG else 6 * SOON), [0]
        try:
            for second in range(patience):
                try:
                    work.wait(SLICE)
                    return []
                except RuntimeError:
                    if work.is_completed():
                        work.wait()  # raises what went wrong, unless it was completed just now
                        return []
                if second == soon:
                    # In a thread, because the first process keeps the store, and does not answer
                    # where it hangs itself.
                    threading.Thread(target=self._look_round, args=(missing,), daemon=True).start()
                if second >= soon + 3 and missing and not self.waits:
                    self.waits = True
                    say(
                        f"relpos: process {self.rank} of {self.world} waits for process "
                        f"{', '.join(map(str, missing))}, {patience // 60} minutes at most"
                    )
        finally:
            self.waits = False
        return missing or [other for other in range(self.world) if other != self.rank]

    def _look_round(self, missing: list[int]) -> None:
        """Tells the others that this process waits, and puts those that do not wait into
        `missing`."""
        assert self.store is not None
        names = [f"{self.messages} {other}" for other in range(self.world)]
        self.store.set(names[self.rank], "")
        time.sleep(2)  # all who wait begin to do so at about the same time
        missing[:] = [other for other, name in enumerate(names) if not self.store.check([name])]


ALONE = Group()
_joined: Group | None = None


def join(rank: int, world: int, local: int, accelerator: str = "auto") -> Group:
    """Joins the group of processes that meet at `MASTER_ADDR` and `MASTER_PORT`. Later calls return
    the same group.

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
        store = _met(rank, world)
        backend, patience = ("nccl", timedelta(seconds=LONG)) if gpus else ("gloo", DAY)
        dist.init_process_group(
            backend,
            store=store,
            rank=rank,
            world_size=world,
            timeout=patience,
        )
        atexit.register(_leave)
        _joined = Group(rank, world, local, store)
    return _joined


def _met(rank: int, world: int) -> dist.Store:
    """Where the processes leave each other the addresses of their connections; returned once all of
    them are there.

    Raises:
        RelposError: names those that did not come, and how long this one has waited.
    """
    address = os.environ["MASTER_ADDR"]
    port = number_in("MASTER_PORT", 0, most=65_535)
    what = f"process {rank} of {world} waits at {address}:{port} for"
    names = [str(other) for other in range(world)]
    # Whoever waits for the place itself is in torch's hands, and can say nothing.
    notice = threading.Timer(
        SOON,
        say,
        [f"relpos: {what} the others, {MEETING:.0f} seconds at most"],
    )
    notice.start()
    try:
        # torchrun holds the place in a process of its own.
        first = rank == 0 and os.getenv("TORCHELASTIC_USE_AGENT_STORE") != "True"
        place = dist.TCPStore(
            address,
            port,
            world,
            first,
            timedelta(seconds=MEETING),
            wait_for_workers=False,
            multi_tenant=True,
        )
        store = dist.PrefixStore(f"relpos {os.getenv('TORCHELASTIC_RESTART_COUNT', '0')}", place)
        store.set(str(rank), "")
        deadline = time.monotonic() + MEETING
        while not store.check(names) and time.monotonic() < deadline:
            time.sleep(0.05)
        missing = [name for name in names if not store.check([name])]
    except (
        RuntimeError,
        ValueError,
    ) as error:  # torch has several classes of RuntimeError for its network
        raise RelposError(
            f"{what} process 0: none after {MEETING:.0f} seconds ({one_line(error)})"
        ) from error
    finally:
        notice.cancel()
    if missing:
        raise RelposError(
            f"{what} {', '.join(missing)}: not there after {MEETING:.0f} seconds; start as many "
            f"as WORLD_SIZE or srun's -n says"
        )
    return store


def _leave() -> None:
    """Ends the threads of the process groups while Python still runs.

    They live as long as anything refers to their group, and one that lets go of a tensor when
    Python has begun to end aborts the process (pytorch/pytorch#190489).
    """
    if _joined:
        _joined.control = None
    dist.destroy_process_group()


def present() -> Group:
    """The group that this process has joined; `ALONE` where it has joined none."""
    return _joined or ALONE

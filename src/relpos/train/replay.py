"""Passes through the network that are recorded once for each shape and replayed: a launch instead of hundreds, and nothing waits.

On CUDA a recording is a graph. Its inputs lie in buffers that every call fills, its gradients are added to `grad` of the parameters
where they are, its outputs are overwritten by the next call. A recording proves itself before it is trusted: the first time, its
outputs and gradients are compared with those of the plain function. Where they differ, or recording fails, one warning says so and
the plain function is used. `PlainCalls` does the same with no recording; tests replay on a CPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

Inputs = dict[str, Tensor]
Function = Callable[[Inputs], tuple[Tensor, ...]]

TOLERANCE = 1e-2
"""A replay may be so far from the plain function, relative to the norm: sums of bfloat16 in another order, but no mistake."""


class Recorder(Protocol):
    """How a function without arguments is recorded; what it computes must stay where it is."""

    def warm_up(self, function: Callable[[], None]) -> None:
        """Calls it once: what is made at its first call exists before it is recorded."""

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """What replays it."""


class PlainCalls:
    """No recording: a replay is a call."""

    def warm_up(self, function: Callable[[], None]) -> None:
        function()

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        return function


class CudaGraphs:
    """CUDA graphs that share their memory: they run one after another, and outputs are used before the next replay."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()

    def warm_up(self, function: Callable[[], None]) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            function()
        torch.cuda.current_stream().wait_stream(self.stream)

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # "thread_local": another thread, which reads the coming steps, may allocate pinned memory meanwhile.
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            function()
        return graph.replay


def recorder_for(accelerator: str) -> Callable[[], Recorder] | None:
    """What makes a recorder on the device of this name (auto, cpu, gpu); None where nothing is recorded."""
    return CudaGraphs if accelerator != "cpu" and torch.cuda.is_available() else None


@dataclass
class _Recording:
    buffers: Inputs
    replay: Callable[[], None]
    outputs: list[Tensor]


class Replay:
    """A function of tensors that also adds gradients to parameters.

    Args:
        function: gives tensors and calls `backward`; for inputs of the same shapes it must do the same.
        parameters: whose gradients it adds to; from the first call on they keep their place in memory.
    """

    def __init__(self, function: Function, parameters: Sequence[nn.Parameter], recorder: Recorder) -> None:
        self.function, self.parameters, self.recorder = function, parameters, recorder
        self.recordings: dict[tuple[tuple[int, ...], ...], _Recording] = {}
        self.trusted = True

    def __call__(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """What the function gives; used before the next call, which overwrites it."""
        shapes = tuple(tuple(value.shape) for value in inputs.values())
        if self.trusted and shapes not in self.recordings:
            self._record(shapes, inputs)
        if not self.trusted:
            return self.function(inputs)
        recording = self.recordings[shapes]
        for name, value in inputs.items():
            recording.buffers[name].copy_(value, non_blocking=True)
        recording.replay()
        return tuple(recording.outputs)

    def _record(self, shapes: tuple[tuple[int, ...], ...], inputs: Inputs) -> None:
        buffers = {name: value.clone() for name, value in inputs.items()}
        before = [None if p.grad is None else p.grad.clone() for p in self.parameters]
        outputs: list[Tensor] = []

        def run() -> None:
            outputs[:] = self.function(buffers)

        def results(call: Callable[[], None]) -> list[Tensor]:
            for p in self.parameters:
                if p.grad is not None:
                    p.grad.zero_()
            call()
            grads = [p.grad.flatten() for p in self.parameters if p.grad is not None]
            return [*(value.clone() for value in outputs), torch.cat(grads)]

        try:
            plain = results(lambda: self.recorder.warm_up(run))
            replay = self.recorder.record(run)
            fault = _difference(plain, results(replay))
        except Exception as error:  # of any kind: recording is optional, and training goes on without it
            fault = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if fault is None:
            self.recordings[shapes] = _Recording(buffers, replay, outputs)
        else:
            self.trusted = False
            warnings.warn(f"forward passes are not recorded as CUDA graphs: {fault}; plain calls are used", stacklevel=4)
        for p, grad in zip(self.parameters, before, strict=True):
            if p.grad is not None:
                p.grad.zero_() if grad is None else p.grad.copy_(grad)


def _difference(plain: list[Tensor], replayed: list[Tensor]) -> str | None:
    """What is too far apart; None: nothing."""
    for number, (expected, found) in enumerate(zip(plain, replayed, strict=True)):
        distance = float((found.double() - expected.double()).norm())
        if not distance <= TOLERANCE * float(expected.double().norm()) + 1e-12:
            return f"{'the gradient' if number == len(plain) - 1 else f'output {number}'} of a replay is off by {distance:.1e}"
    return None

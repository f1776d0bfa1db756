"""Steps on a GPU whose passes are recorded once for each shape and replayed: one launch instead of hundreds.

Results are those of the plain step to rounding. The CPU never waits for the device: inputs come with masks in and with the places
of the tokens that are computed and predicted (`relpos.data.passes`), so that nothing has to be counted before a pass is launched;
the device draws dropout alone.

On CUDA a recording is a graph. Its inputs lie in buffers that every call fills, its gradients are added in place to `grad` of the
parameters, its outputs are overwritten by the next call. A recording proves itself before it is trusted: the first time, its
outputs and the gradient of each parameter are compared with those of the plain function. Where they differ, or recording fails,
one warning says so and the plain function is used. `Recorder` has the same interface without recording, so that tests can replay
on a CPU.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from relpos.counter import fold
from relpos.model.dropout import RecordedKeys, seed_dropout
from relpos.model.precision import autocast, cast_together
from relpos.model.tokens import Tokens

Inputs = dict[str, Tensor]
Function = Callable[[Inputs], tuple[Tensor, ...]]
Losses = Callable[[Inputs, Tokens], tuple[Tensor, ...]]

TOLERANCE = 1e-2
"""Largest distance of a replay from the plain function, relative to the norm: wide enough for sums of bfloat16 in another order.
For a gradient it grows by so much of itself relative to the norm of all: that of the keys' bias is rounding and nothing else."""


class Recorder:
    """How a function without arguments is recorded: here not at all, a replay is a call."""

    def warm_up(self, function: Callable[[], None]) -> None:
        """Calls the function once, so that all that its first call creates exists before the recording."""
        function()

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Returns a function that replays it; the results of a function must keep their place in memory."""
        return function


class CudaGraphs(Recorder):
    """CUDA graphs that share their memory: they run one after another, and outputs are used before the next replay."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()

    def warm_up(self, function: Callable[[], None]) -> None:
        # The two streams wait for each other: inputs and gradients are written on one and read on the other.
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            function()
        torch.cuda.current_stream().wait_stream(self.stream)

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # "thread_local": the thread that reads the next steps may allocate pinned memory during the recording.
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            function()
        return graph.replay


@dataclass
class _Recording:
    buffers: Inputs
    replay: Callable[[], None]
    outputs: list[Tensor]


class Replay:
    """A function of tensors that also adds gradients to parameters.

    Args:
        function: returns tensors and calls `backward`; for inputs of the same shapes it must launch the same operations.
        parameters: by name, those whose gradients it adds to; from the first call on the gradients keep their place in memory.
    """

    def __init__(self, function: Function, parameters: Mapping[str, nn.Parameter], recorder: Recorder) -> None:
        self.function, self.parameters, self.recorder = function, parameters, recorder
        self.recordings: dict[tuple[tuple[int, ...], ...], _Recording] = {}
        self.trusted = True

    def __call__(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """The function's outputs; use them before the next call, which overwrites them."""
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
        before = [None if p.grad is None else p.grad.clone() for p in self.parameters.values()]
        outputs: list[Tensor] = []

        def run() -> None:
            outputs[:] = self.function(buffers)

        def results(call: Callable[[], None]) -> dict[str, Tensor]:
            for p in self.parameters.values():
                if p.grad is not None:
                    p.grad.zero_()
            call()
            found = {f"output {number}": value.clone() for number, value in enumerate(outputs)}
            return found | {name: p.grad.clone() for name, p in self.parameters.items() if p.grad is not None}

        try:
            # The plain call is the warm-up, too: what a first call creates must be there before the recording.
            plain = results(lambda: self.recorder.warm_up(run))
            replay = self.recorder.record(run)
            fault = _difference(plain, results(replay), len(outputs))
        except Exception as error:  # of any kind: recording is optional, and training goes on without it
            fault = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if fault is None:
            self.recordings[shapes] = _Recording(buffers, replay, outputs)
        else:
            self.trusted = False
            warnings.warn(f"forward passes are not recorded as CUDA graphs: {fault}; plain calls are used", stacklevel=4)
        # Comparing has overwritten the gradients of the passes before this one.
        for p, grad in zip(self.parameters.values(), before, strict=True):
            if p.grad is not None:
                p.grad.zero_() if grad is None else p.grad.copy_(grad)


def _difference(plain: dict[str, Tensor], replayed: dict[str, Tensor], outputs: int) -> str | None:
    """Names the first result that is too far apart, the outputs before the gradients; None where none is."""
    norms, distances = (
        [float(x.double().norm()) for x in found]
        for found in (plain.values(), [replayed[name] - expected for name, expected in plain.items()])
    )
    whole = math.hypot(*norms[outputs:])
    for number, (name, norm, distance) in enumerate(zip(plain, norms, distances, strict=True)):
        kind, more = ("", 0.0) if number < outputs else ("the gradient of ", TOLERANCE * whole)
        # Not `>`, which NaN would pass.
        if not distance <= TOLERANCE * (norm + more) + 1e-12:
            return f"{kind}{name} of a replay is off by {distance:.1e}"
    return None


class RecordedPasses:
    """Gradients of whole steps, pass by pass.

    Args:
        seed: of dropout.
        precision: `fp32` or `bf16`.
        losses: the inputs of a pass (input_ids (b, n), keys (b,) and others) and the tokens that are computed → the sum of its
            losses, and other sums over it.
    """

    def __init__(self, model: nn.Module, seed: int, precision: str, recorder: Recorder, losses: Losses) -> None:
        self.model, self.seed, self.precision, self.losses = model, seed, precision, losses
        self.device = next(model.parameters()).device
        self.keys = RecordedKeys(self.device)
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.parameters = list(named.values())
        self.multiplied = dict(_multiplied(model)) if precision == "bf16" else {}
        self.replay = Replay(self._pass, named, recorder)

    def sums(self, index: int, passes: list[Inputs]) -> Tensor:
        """Leaves the gradient of the summed losses in `grad`; the sums of `losses` over the passes, float64, on the device."""
        self.keys.fill(fold(self.seed, index))
        # Copied at once: the next replay overwrites the outputs of this one.
        return torch.stack([torch.stack([x.double() for x in self.replay(part)]) for part in passes]).sum(0)

    def divide(self, number: float) -> None:
        """The gradients by a number."""
        torch._foreach_div_([p.grad for p in self.parameters if p.grad is not None], number)

    def zero_gradients(self) -> None:
        """In place: recordings add to them where they are."""
        torch._foreach_zero_([p.grad for p in self.parameters if p.grad is not None])

    def _pass(self, inputs: Inputs) -> tuple[Tensor, ...]:
        ids = inputs["input_ids"]
        seed_dropout(self.model, self.keys, inputs["keys"])
        with autocast(self.precision, self.device):
            cast = cast_together(self.multiplied, torch.bfloat16) if self.multiplied else {}
            given = inputs, Tokens(len(ids), ids.shape[1], inputs.get("held"))
            loss, *others = functional_call(_Called(self.model, self.losses), cast, given)
        # One addition for all parameters, and not one for each.
        grads = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        reached = [(p, grad) for p, grad in zip(self.parameters, grads, strict=True) if grad is not None]
        for p, _ in reached:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        torch._foreach_add_([p.grad for p, _ in reached if p.grad is not None], [grad for _, grad in reached])
        return loss.detach(), *others


class _Called(nn.Module):
    """A function of a model as the forward pass of a module, which `functional_call` needs."""

    def __init__(self, model: nn.Module, function: Losses) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *given: Any) -> tuple[Tensor, ...]:
        return self.function(*given)


def _multiplied(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What is multiplied in bfloat16, by its name in `_Called`. Schemes and convolutions choose their number formats themselves,
    and bias + GELU adds its bias in float32."""
    for name, module in model.named_modules(prefix="model"):
        if isinstance(module, nn.Linear) and not {"position", "conv"} & {*name.split(".")} and module.weight.dtype == torch.float32:
            yield f"{name}.weight", module.weight
            if module.bias is not None and name.endswith(".project"):
                yield f"{name}.bias", module.bias

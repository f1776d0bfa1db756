"""Steps on a GPU whose passes are recorded once for each shape and replayed: one launch instead of
hundreds.

Results are those of the plain step to rounding. The CPU never waits for the device: inputs come
with masks in and with the places of the tokens that are computed and predicted
(`relpos.data.passes`), so that nothing has to be counted before a pass is launched; the device
draws dropout alone.

On CUDA a recording is a graph. Its inputs lie in buffers that every call fills, its gradients are
added to tensors of its own and not to `grad`, its outputs are overwritten by the next call. The
update, clipping and AdamW, is a recording too: by plain calls it takes the processor longer than
the GPU. A recording proves itself before it is trusted: the first time, its outputs and all that it
changes are compared with what the plain function makes of the same state. Where they differ, or
recording fails, one warning says so and the plain function is used. `Recorder` has the same
interface without recording, so that tests can replay on a CPU.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import functional_call

from relpos.counter import fold
from relpos.errors import with_class
from relpos.model.dropout import RecordedKeys, seed_dropout
from relpos.model.encoder import device_of
from relpos.model.precision import autocast, cast_together
from relpos.model.tokens import Tokens
from relpos.train.prefetch import pinned

if TYPE_CHECKING:
    from relpos.train.module import Training

Inputs = dict[str, Tensor]
Shapes = tuple[tuple[int, ...], ...]
Recording = tuple[Inputs, Callable[[], None], list[Tensor]]
Function = Callable[[Inputs], tuple[Tensor, ...]]

TOLERANCE = 1e-2
"""Largest distance of a replay from the plain function, relative to the norm: wide enough for sums
of bfloat16 in another order. For a gradient it grows by so much of itself relative to the norm of
all: that of the keys' bias is rounding and nothing else."""


class Recorder:
    """How a function without arguments is recorded: here not at all, a replay is a call."""

    def warm_up(self, function: Callable[[], None]) -> None:
        """Calls the function once, so that all that its first call creates exists before the
        recording."""
        function()

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Returns a function that replays it; the results of a function must keep their place in
        memory."""
        return function


class CudaGraphs(Recorder):
    """CUDA graphs that share their memory: they run one after another, and outputs are used before
    the next replay."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()

    def warm_up(self, function: Callable[[], None]) -> None:
        # The two streams wait for each other: inputs and gradients are written on one and read on
        # the other.
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            function()
        torch.cuda.current_stream().wait_stream(self.stream)

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # "thread_local": the thread that reads the next steps may allocate pinned memory during the
        # recording.
        with torch.cuda.graph(
            graph,
            pool=self.pool,
            stream=self.stream,
            capture_error_mode="thread_local",
        ):
            function()
        return graph.replay


@dataclass
class Replay:
    """A function of tensors that changes other tensors.

    Args:
        function: returns tensors; for inputs of the same shapes it must launch the same operations.
        changed: by name, what it changes. The first call may add to it; from then on all keep their
            place in memory.
        noise: by how much of a change, relative to the norm of all, a replay of it may be off
            beside `TOLERANCE` of itself.
        recordings: shapes of the inputs → their buffers, the replay, and the outputs.
        trusted: until a recording fails, or differs from the plain function.
    """

    function: Function
    changed: Callable[[], Mapping[str, Tensor]]
    device: torch.device
    recorder: Recorder
    noise: float
    recordings: dict[Shapes, Recording] = field(default_factory=dict)
    trusted: bool = True

    def __call__(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """The function's outputs; use them before the next call, which overwrites them. Inputs may
        lie in the CPU's memory."""
        shapes = tuple(tuple(value.shape) for value in inputs.values())
        if self.trusted and shapes not in self.recordings:
            self._record(shapes, inputs)
        if not self.trusted:
            return self.function({name: value.to(self.device) for name, value in inputs.items()})
        buffers, replay, outputs = self.recordings[shapes]
        for name, value in inputs.items():
            buffers[name].copy_(value, non_blocking=True)
        replay()
        return tuple(outputs)

    def _record(self, shapes: Shapes, inputs: Inputs) -> None:
        buffers = {name: value.to(self.device, copy=True) for name, value in inputs.items()}
        before = {name: value.detach().clone() for name, value in self.changed().items()}
        outputs: list[Tensor] = []

        def run() -> None:
            outputs[:] = self.function(buffers)

        @torch.no_grad()
        def results(call: Callable[[], None]) -> dict[str, Tensor]:
            """The outputs and the changes of a call, which are undone."""
            with torch.enable_grad():
                call()
            results = {f"output {number}": value.clone() for number, value in enumerate(outputs)}
            for name, value in self.changed().items():
                start = before.get(name, torch.zeros_like(value))
                results[name] = value - start
                value.copy_(start)
            return results

        try:
            # The plain call is the warm-up, too: what a first call creates must be there before the
            # recording.
            plain = results(lambda: self.recorder.warm_up(run))
            replay = self.recorder.record(run)
            fault = self._difference(plain, results(replay), len(outputs))
        except (
            Exception
        ) as error:  # of any kind: recording is optional, and training goes on without it
            # an error ends the recording with a second one, which says nothing
            fault = with_class(error.__context__ or error)
        if fault is None:
            self.recordings[shapes] = buffers, replay, outputs
        else:
            self.trusted = False
            warnings.warn(
                f"steps are not recorded as CUDA graphs: {fault}; plain calls are used",
                stacklevel=4,
            )

    def _difference(
        self,
        plain: dict[str, Tensor],
        replayed: dict[str, Tensor],
        outputs: int,
    ) -> str | None:
        """Names the first result that is too far apart, the outputs before the changes; None where
        none is."""
        norms = [float(value.double().norm()) for value in plain.values()]
        changes = math.hypot(*norms[outputs:])
        for number, (name, expected) in enumerate(plain.items()):
            more = self.noise * changes if number >= outputs else 0.0
            distance = float((replayed[name] - expected).double().norm())
            # Not `>`, which NaN would pass.
            if not distance <= TOLERANCE * (norms[number] + more) + 1e-12:
                return f"{name} of a replay is off by {distance:.1e}"
        return None


class RecordedSteps:
    """Whole steps: gradients, pass by pass, and the update.

    Args:
        training: whose steps they are. Its sums are a function of the inputs of a pass
            (input_ids (b, n), keys (b,) and others) and of the tokens that are computed.
        optimizer: of the model's parameters. AdamW's step is recorded, that of another optimiser is
            called.
    """

    def __init__(
        self,
        training: Training,
        recorder: Recorder,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self.training, self.optimizer = training, optimizer
        model = self.model = training.model
        self.device = device_of(model)
        self.keys = RecordedKeys(self.device)
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.multiplied = dict(_multiplied(model)) if training.precision == "bf16" else {}
        self.gradients: dict[str, Tensor] = {}
        self.passes = Replay(self._pass, self._gradients, self.device, recorder, noise=TOLERANCE)
        self.updates = Replay(self._update, self._updated, self.device, recorder, noise=0.0)
        self.updates.trusted = all("capturable" in group for group in optimizer.param_groups)

    def sums(self, index: int, passes: list[Inputs]) -> Tensor:
        """Adds the gradient of the summed losses to `gradients`; the sums over the passes, float64,
        on the device."""
        self.keys.fill(fold(self.training.seed, index))
        # Copied at once: the next replay overwrites the outputs of this one.
        return reduce(torch.add, [self.passes(part)[0].clone() for part in passes])

    def update(self, number: float) -> Tensor:
        """Updates the weights by `gradients` ÷ `number`, which are zero then; the norm of these
        before they are clipped."""
        rates = [group["lr"] for group in self.optimizer.param_groups]
        inputs = {"number": torch.tensor(number, dtype=torch.float64), "rates": torch.tensor(rates)}
        # For a copy from memory that is not pinned the driver may wait for the device.
        (norm,) = self.updates(pinned(inputs) if self.device.type == "cuda" else inputs)
        return norm

    def _pass(self, inputs: Inputs) -> tuple[Tensor, ...]:
        batch, n = inputs["input_ids"].shape
        seed_dropout(self.model, self.keys, inputs["keys"])
        tokens = Tokens(batch, n)
        if "held" in inputs:
            tokens = Tokens.first(batch, n, inputs["held"])
        with autocast(self.training.precision, self.device):
            cast = cast_together(self.multiplied, torch.bfloat16) if self.multiplied else {}
            loss, *others = functional_call(self.training, cast, (inputs, tokens))
        # One addition for all parameters, and not one for each.
        grads = torch.autograd.grad(loss, [*self.parameters.values()], allow_unused=True)
        reached = {
            name: grad
            for name, grad in zip(self.parameters, grads, strict=True)
            if grad is not None
        }
        for name in reached.keys() - self.gradients.keys():
            self.gradients[name] = torch.zeros_like(self.parameters[name])
        torch._foreach_add_([self.gradients[name] for name in reached], [*reached.values()])
        return (torch.stack([x.detach().double() for x in (loss, *others)]),)

    def _gradients(self) -> dict[str, Tensor]:
        return {f"the gradient of {name}": grad for name, grad in self.gradients.items()}

    def _update(self, inputs: Inputs) -> tuple[Tensor, ...]:
        gradients = [*self.gradients.values()]
        torch._foreach_div_(gradients, inputs["number"].to(gradients[0].dtype))
        for name, grad in self.gradients.items():
            self.parameters[name].grad = grad
        norm = nn.utils.clip_grad_norm_(self.parameters.values(), self.training.recipe.clip)
        # The optimiser reads its rates on the device, where a replay finds those of its step;
        # checkpoints and the schedule see numbers.
        groups = self.optimizer.param_groups
        before = [dict(group) for group in groups]
        try:
            if self.updates.trusted:
                for group, rate in zip(groups, inputs["rates"], strict=True):
                    group |= {"lr": rate, "capturable": True}
            self.optimizer.step()
        finally:
            for group, numbers in zip(groups, before, strict=True):
                group |= numbers
        for name in self.gradients:
            self.parameters[name].grad = None
        torch._foreach_zero_(gradients)
        return (norm,)

    def _updated(self) -> dict[str, Tensor]:
        """All that an update changes."""
        moments = {
            f"{key} of {name}": x
            for name, p in self.parameters.items()
            for key, x in self.optimizer.state.get(p, {}).items()
        }
        return self._gradients() | self.parameters | moments


def _multiplied(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What is multiplied in bfloat16, by its name in `Training`. Schemes and convolutions choose
    their number formats themselves, and bias + GELU adds its bias in float32."""
    for name, module in model.named_modules(prefix="model"):
        if (
            isinstance(module, nn.Linear)
            and not {"position", "conv"} & {*name.split(".")}
            and module.weight.dtype == torch.float32
        ):
            yield f"{name}.weight", module.weight
            if module.bias is not None and name.endswith(".project"):
                yield f"{name}.bias", module.bias

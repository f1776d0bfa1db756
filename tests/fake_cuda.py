"""Training passes on CUDA tensors without a GPU and without arithmetic: what would be launched, and
what a GPU would refuse.

Tensors are torch's fake ones: they have a shape, a number format and the device `cuda`, and no
values. Operations on them go through autocast, autograd and our own code as those of a GPU do, and
each is entered in a `Ledger`:

- launches, and the bytes that they read and write, as if nothing stayed in a cache. Triton's
  programs are not run; those of attention count as launches alone, because what they read depends
  on more than their arguments' size.
- number formats that CUDA's kernels refuse. An operation that does not turn its arguments into a
  common format needs one.
- copies from the host, which a recorded pass would make of memory that is gone when it is replayed.
- operations whose result the processor waits for. There is no value to wait for, so that the pass
  ends there.

What torch lacks without a GPU takes the place of it for as long as a `FakeCuda` is open: a guard of
CUDA devices (that of `meta`, which does nothing), and the engine of backward passes, which asks for
streams (`gradients` walks over the graph in Python).
"""

from __future__ import annotations

import ctypes
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from glue_tasks import task
from relpos.model.dropout import seed_dropout
from relpos.model.heads import Classifier, MaskedLM
from relpos.model.kernels import proof, sweeps
from relpos.model.precision import autocast, casting_once
from relpos.train.finetune import Finetuning
from relpos.train.module import Training
from relpos.train.optim import Recipe
from relpos.train.pretrain import Pretraining
from relpos.train.recorded import RecordedSteps, Recorder

CUDA = torch.device("cuda")
MODE = FakeTensorMode(allow_non_fake_inputs=True)
"""One mode for all: tensors of two modes do not go together, and functions of ours keep tensors."""
ATTENTION = {"relpos.model.kernels.triton_programs", "relpos.model.kernels.triton_terms"}
"""The modules of the programs whose bytes are not counted."""

_CUDA, _META = 1, 14  # numbers of c10::DeviceType, which are part of torch's binary interface
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
WAITING = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "equal",
    "is_nonzero",
    "unique_dim",
    "_unique2",
}
# nothing is launched, though they are no views
FREE = {"_unsafe_view", "lift_fresh", "set_", "resize_"}
UNREAD = {"new_zeros", "zeros_like", "ones_like", "full_like", "zero_", "fill_"}
"""Operations that read no more of their arguments than the shape."""
TOLERANT = {"copy_", "_to_copy", "_foreach_copy_", "cat", "where", "_fused_adamw_"}
"""Operations, besides the pointwise ones, whose arguments may differ in number format."""
STATISTICS = {"native_layer_norm_backward": (3, 4)}
"""Arguments that are in float32 whatever the others are."""


@cache
def missing() -> str | None:
    """Why there is no fake CUDA with this build of torch; None where there is."""
    if torch.cuda.is_available():
        return "there is a GPU"
    try:
        guards = _guards()
    except (OSError, ValueError) as error:
        return f"torch {torch.__version__} shows no device guards: {error}"
    if not guards[_META]:
        return f"torch {torch.__version__} has no device guard of meta"
    try:
        with FakeCuda() as gpu, autocast("bf16", CUDA):
            gpu.move(nn.Linear(4, 2))(torch.ones(3, 4, device=CUDA)).sum().backward()
    except Exception as error:  # of any kind: it is torch's inside that is used here
        return f"torch {torch.__version__} is other inside: {type(error).__name__}: {error}"
    return None


def _guards() -> Any:
    """The pointers to device guards, by type of device."""
    (library,) = (Path(torch.__file__).parent / "lib").glob("libc10.so")
    return (ctypes.c_void_p * (_META + 1)).in_dll(ctypes.CDLL(str(library)), _REGISTRY)


class Ledger(TorchDispatchMode):
    """What has been launched while it was open.

    Attributes:
        launches: (phase, name) → how often; names of Triton's programs begin with `triton `.
        bytes: the same → bytes read and written.
        faults: what a GPU would refuse or a recording must not have, with the line of ours that
            asked for it.
        programs: Triton's, each with the arguments and options of its launch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.launches: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.faults: Counter[str] = Counter()
        self.programs: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self.phase = "forward"

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = function._schema.name.partition("::")[2]
        inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        if name in WAITING and any(x.device.type == "cuda" for x in inputs):
            self.fault(f"{name} waits for the device")
        result = function(*args, **(kwargs or {}))
        outputs = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        devices = {x.device.type for x in (*inputs, *outputs)}
        if (
            "cuda" not in devices
            or function.namespace == "prim"
            or name.startswith(("empty", "new_empty"))
        ):
            return result
        by_value = _is_pointwise(function) and all(
            x.dim() == 0 for x in inputs if x.device.type == "cpu"
        )
        if "cpu" in devices and not by_value:
            self.fault(f"{name} copies from or to the host")
        aside = STATISTICS.get(name, ())
        formats = {
            x.dtype
            for at, x in enumerate(args)
            if at not in aside and isinstance(x, Tensor) and x.is_floating_point()
        }
        if len(formats) > 1 and name not in TOLERANT and not _is_pointwise(function):
            self.fault(f"{name} gets {', '.join(sorted(str(x)[6:] for x in formats))}")
        if not function.is_view and name not in FREE:
            written = [inputs[0]] if function._schema.is_mutable else outputs
            read = [] if name in UNREAD else {id(x): x for x in inputs}.values()
            self.launch(name, sum(map(_size, read)) + sum(map(_size, written)))
        return result

    def launch(self, name: str, moved: int) -> None:
        """Enters a launch that reads and writes so many bytes."""
        self.launches[self.phase, name] += 1
        self.bytes[self.phase, name] += moved

    def fault(self, message: str) -> None:
        """Enters a fault of the line of ours that is being executed."""
        ours = [frame for frame in traceback.extract_stack() if "/relpos/" in frame.filename]
        self.faults[
            f"{message} ({'/'.join(ours[-1].filename.split('/')[-2:])}:{ours[-1].lineno})"
            if ours
            else message
        ] += 1


@cache
def _is_pointwise(function: Any) -> bool:
    """Whether it works element by element: it finds a common number format, and takes numbers of
    the host by their value."""
    packet = getattr(torch.ops.aten, function._schema.name.partition("::")[2].rstrip("_"), None)
    overloads = [getattr(packet, name) for name in packet.overloads()] if packet is not None else []
    # In place some have no tag, and `fill_` has none at all.
    return function._schema.name == "aten::fill_" or any(
        torch.Tag.pointwise in overload.tags for overload in (function, *overloads)
    )


def _size(x: Tensor) -> int:
    return x.numel() * x.element_size()


class FakeCuda:
    """While it is open, `cuda` is a device whose tensors are fake, and the attention kernel in
    Triton counts as proven."""

    def __init__(self) -> None:
        self.ledgers: list[Ledger] = []
        self.walks = True  # false: gradients are zeros, and nothing is entered for them

    def __enter__(self) -> FakeCuda:
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction

        guards, self.open = _guards(), ExitStack()
        self.open.callback(guards.__setitem__, _CUDA, guards[_CUDA])
        guards[_CUDA] = guards[_META]
        replaced: list[tuple[Any, str, Any]] = [
            # torch.autocast would switch itself off
            (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
            (torch.cuda, "is_bf16_supported", lambda *_, **__: True),
            (torch.autograd, "backward", self.backward),
            (torch.autograd, "grad", self.grad),
            (torch.Tensor, "pin_memory", lambda x, *_: x),
            (torch.autograd.function.FunctionCtx, "set_materialize_grads", _materialize),
            (proof, "holds", lambda *_: True),
            (sweeps, "hold", lambda *_: True),
            *(
                (kind, "__getitem__", lambda program, _: self.launcher(program))
                for kind in (JITFunction, InterpretedFunction)
            ),
        ]
        for where, name, what in replaced:
            self.open.enter_context(patch.object(where, name, what))
        self.open.enter_context(MODE)
        return self

    def __exit__(self, *error: Any) -> None:
        self.open.close()

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """What is launched inside."""
        with Ledger() as ledger:
            self.ledgers.append(ledger)
            try:
                yield ledger
            finally:
                self.ledgers.pop()

    def launcher(self, program: Any) -> Callable[..., None]:
        """`program[grid]` of one of Triton's programs: a launch reads or writes each tensor that it
        is given once."""

        def launch(*arguments: Any, **options: Any) -> None:
            moved = {id(x): _size(x) for x in arguments if isinstance(x, Tensor)}
            function = program.fn
            for ledger in self.ledgers:
                ledger.programs.append((program, arguments, options))
                ledger.launch(
                    f"triton {function.__name__}",
                    0 if function.__module__ in ATTENTION else sum(moved.values()),
                )

        return launch

    def backward(self, loss: Tensor, *_: Any, **__: Any) -> None:
        """`torch.autograd.backward` of one scalar."""
        for p, grad in self.gradients(loss):
            if p.grad is None:
                p.grad = grad
            else:
                p.grad.add_(grad)

    def grad(
        self, loss: Tensor, inputs: Iterable[Tensor], *_: Any, **__: Any
    ) -> tuple[Tensor | None, ...]:
        """`torch.autograd.grad` of one scalar by parameters."""
        if not self.walks:
            return tuple(map(torch.zeros_like, inputs))
        grads = {id(p): grad for p, grad in self.gradients(loss)}
        return tuple(grads.get(id(p)) for p in inputs)

    @torch.no_grad()
    def gradients(self, loss: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """(parameter, its gradient) of all that the scalar depends on, as torch's engine makes
        them."""
        if not self.walks:
            return
        for ledger in self.ledgers:
            ledger.phase = "backward"
        assert loss.grad_fn is not None
        arrived: dict[Any, dict[int, Tensor]] = defaultdict(dict)
        arrived[loss.grad_fn][0] = torch.ones_like(loss)
        for node in _downwards(loss.grad_fn):
            grads = arrived.pop(node, {})
            if not grads:
                continue
            if hasattr(node, "variable"):
                yield node.variable, grads[0]
                continue
            results = _of_node(node, [grads.get(at) for at in range(len(node._input_metadata))])
            for (follower, at), grad in zip(_followers(node), results, strict=True):
                if grad is None:
                    continue
                metadata = follower._input_metadata[at]
                if grad.shape != torch.Size(metadata.shape):
                    grad = grad.sum_to_size(tuple(metadata.shape))
                if grad.dtype != metadata.dtype:
                    grad = grad.to(metadata.dtype)
                arrived[follower][at] = (
                    grad if at not in arrived[follower] else arrived[follower][at] + grad
                )

    def move(self, model: nn.Module, gradients: bool = True) -> nn.Module:
        """The module with parameters and buffers on the device, and with gradients of zeros, as
        before a recorded pass."""
        moved: dict[int, nn.Parameter] = {}  # tied parameters stay tied
        for part in model.modules():
            for name, p in part._parameters.items():
                if p is not None:
                    moved.setdefault(id(p), nn.Parameter(fake(p), p.requires_grad))
                    part._parameters[name] = moved[id(p)]
            for name, x in part._buffers.items():
                part._buffers[name] = None if x is None else fake(x)
        for p in moved.values() if gradients else ():
            p.grad = torch.zeros_like(p)
        return model


def fake(x: Tensor) -> Tensor:
    """A tensor like x on the device."""
    return FakeTensor(
        MODE, torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta"), CUDA
    )


def _downwards(root: Any) -> list[Any]:
    """The nodes of the graph, each before those that it hands gradients to."""
    finished: list[Any] = []
    seen: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            finished.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(follower, False) for follower, _ in _followers(node)]
    return finished[::-1]


def _followers(node: Any) -> list[tuple[Any, int]]:
    """The nodes to which a node hands gradients, and the place of the output there."""
    return [edge for edge in node.next_functions if edge[0] is not None]


def _materialize(ctx: Any, value: bool) -> None:
    """What torch's method does, which leaves nothing that could be read."""
    ctx.materialize_grads = ctx.fills = value


def _of_node(node: Any, grads: list[Tensor | None]) -> list[Tensor | None]:
    """What a node makes of the gradients of its outputs: one for each of its followers."""
    is_ours = isinstance(node, torch.autograd.function.BackwardCFunction)
    if is_ours and getattr(node, "fills", True):
        for at, metadata in enumerate(node._input_metadata):
            if grads[at] is None:
                grads[at] = torch.zeros(tuple(metadata.shape), dtype=metadata.dtype, device=CUDA)
    results = (node.apply if is_ours else node)(*grads)
    results = results if isinstance(results, tuple) else (results,)
    # A node of ours returns a gradient for every argument, needed or not.
    needed = node.needs_input_grad if is_ours else [edge[0] for edge in node.next_functions]
    return list(compress(results, needed))


def recorded(
    model: nn.Module,
    rows: int = 4,
    n: int = 16,
    precision: str = "bf16",
    held: int | None = None,
    weighted: bool = False,
) -> Ledger:
    """A recorded pass of a pre-training, or of a classifier's fine-tuning, of rows of n tokens,
    after a pass that has made what only a first pass makes. `held` of the tokens are computed, None:
    all, and a sixth of these predicted, by weights of the rows where the pass is weighted."""
    with FakeCuda() as gpu:
        gpu.move(model).train()
        ids, keys = (
            torch.zeros(rows, n, dtype=torch.int64, device=CUDA),
            torch.arange(rows, device=CUDA),
        )
        inputs = {
            "input_ids": ids,
            "keys": keys,
            "attention_mask": torch.ones(rows, n, dtype=torch.bool, device=CUDA),
        }
        if held is not None:
            inputs |= {"held": torch.arange(held, device=CUDA)}
            inputs["attention_mask"] = (torch.arange(rows * n, device=CUDA) < held).view(rows, n)
        dials = Recipe(lr=1e-3, warmup=0), 20, 0, precision, 1
        training: Training
        if isinstance(model, Classifier):
            training = Finetuning(task("mnli"), model, *dials)
            inputs |= {"token_types": ids, "labels": keys * 0}
        else:
            assert isinstance(model, MaskedLM)
            training = Pretraining(model, *dials)
            inputs |= {"labels": ids, "at": torch.arange((held or rows * n) // 6, device=CUDA)}
            inputs |= {"weights": torch.ones(rows, device=CUDA)} if weighted else {}
        step = RecordedSteps(
            training, Recorder(), torch.optim.AdamW(model.parameters(), fused=True)
        )
        function = step.passes.function
        # in step 0 FLOATER solves its equation, for which it needs values
        model.encoder.position.begin_step(1)
        ledgers: list[Ledger] = []

        def counted(inputs: dict[str, Tensor]) -> tuple[Tensor, ...]:
            with gpu.ledger() as ledger:
                ledgers.append(ledger)
                return function(inputs)

        for step.passes, gpu.walks in ((function, False), (counted, True)):
            step.sums(1, [inputs])
    return ledgers[-1]


def plain(model: nn.Module, rows: int = 4, n: int = 16) -> Ledger:
    """A plain pass in bfloat16, of a classifier or of ELECTRA's discriminator, of rows without
    padding."""
    with FakeCuda() as gpu:
        gpu.move(model).train()
        ids, labels = (
            torch.zeros(rows, n, dtype=torch.int64, device=CUDA),
            torch.zeros(rows, dtype=torch.int64, device=CUDA),
        )
        mask = torch.ones(rows, n, dtype=torch.bool, device=CUDA)
        seed_dropout(model, 0, labels)
        model.encoder.position.begin_step(1)
        with gpu.ledger() as ledger, casting_once("bf16", CUDA):
            with autocast("bf16", CUDA):
                # A classifier's encoder counts the real tokens, for which a GPU is waited for.
                outputs = model(ids) if isinstance(model, Classifier) else model(ids, mask)
            if outputs.shape[1] == n:
                loss = nn.functional.binary_cross_entropy_with_logits(
                    outputs.float(), mask.float(), mask.float()
                )
            else:
                loss = nn.functional.cross_entropy(outputs.float(), labels)
            loss.backward()
    return ledger

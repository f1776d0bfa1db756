"""An optional program proves itself before it is trusted: attention kernels here, single passes in
`sweeps`.

The first time that a kernel is to compute a kind of terms on a device in a number format, its
values and gradients are compared with those of `eager` on small batches, on a GPU in a process of
their own (`tried`). So code that no test has run on this hardware can neither spoil a result nor
end a training.

An illegal access or an assertion in a compiler ends the process, and any other error of CUDA stays
with it: a training must not be what tries a program on a GPU for the first time. What a trial has
shown is [kept](kept.py) in the user's cache folder, for each version and device, so that the next
training compiles and waits for nothing; on a CPU a fault is not kept, and is found anew.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import torch
from filelock import FileLock
from torch import Tensor

from relpos.counter import normal
from relpos.errors import say, with_class
from relpos.model.dropout import Draw
from relpos.model.kernels import eager, kept, library
from relpos.model.position.base import Outside, Terms
from relpos.model.precision import compute_dtype
from relpos.model.shape import mapped
from relpos.model.tokens import Tokens

FACTOR = 4.0
"""A kernel's error against float64 may be so many times that of `eager` in the same number format
…"""
ROUNDINGS = 8.0
"""… plus so many roundings of the number format, relative to the norm: `eager` may be exact by
chance."""
LENGTHS = (13, 117, 150)
BATCH, HEADS = 2, 2
RATE = 0.25
SUFFIX = ".txt"  # of the record of a trial
Trial = Callable[..., str | None]
"""What is wrong with a program, in words; None: nothing."""


class Kind(NamedTuple):
    """All that a kernel may have separate code for. A width is None where there are no such
    terms."""

    device: torch.device
    dtype: torch.dtype
    head_dim: int
    content: bool  # q·k is part of the scores
    offset: bool
    query: int | None
    key: int | None
    dense: bool
    value: int | None
    outside: Outside
    columns: bool = False  # query and key are read through a map from offset to column
    reach: int | None = None
    # width of the kernels, where `query` is the rank of their factors
    query_table: int | None = None
    key_table: int | None = None
    narrow: bool = False  # the tables have two axes
    query_bias: bool = False
    packed: bool = False  # all sequences are one row, where a kernel packs them


def kind_of(terms: Terms, v: Tensor, content: bool, packed: bool = False) -> Kind:
    """The kind of a call of an attention kernel with these terms and values v (B, H, n,
    head_dim)."""
    tensors = terms.query, terms.key, terms.query_table, terms.key_table
    query, key, query_table, key_table = mapped(lambda x: x.shape[-1], *tensors)
    outside: Outside = "clamp"
    if terms.windowed and terms.outside == "zero":
        outside = "zero"
    [value] = mapped(len, terms.value)
    return Kind(
        v.device, compute_dtype(v), v.shape[-1], content, terms.offset is not None, query, key, terms.dense is not None,
        value, outside, terms.columns is not None and (query, key) != (None, None),
        terms.reach, query_table, key_table, narrow=any(x is not None and x.dim() == 2 for x in tensors[2:]),
        query_bias=terms.query_bias is not None, packed=packed,
    )  # fmt: skip


@cache
def holds(kernel: ModuleType, kind: Kind) -> bool:
    """Whether the kernel equals `eager` for this kind of call. Tested once in each process; if it
    does not, one warning says so."""
    name = kernel.__name__.rpartition(".")[2]
    device = kind.device.type
    warning = (
        f"attention kernel {name!r} is not used on {device}: {{}}; plain torch computes instead"
    )
    return proven(device, warning, fault_of, kernel.__name__, kind)


def proven(device: str, warning: str, trial: Trial, *arguments: object) -> bool:
    """Whether `trial(*arguments)` finds nothing wrong, on a GPU in a process of its own. What it
    finds is said in a warning, at the braces in `said`."""
    if device == "cuda":
        fault = tried(trial, *arguments)
    elif of_library := library.key():
        fault = tried(trial, *arguments, of_library=of_library)
    else:
        fault = trial(*arguments)
    if fault:
        warnings.warn(warning.format(fault), stacklevel=4)
    return fault is None


def tried(trial: Trial, *arguments: object, of_library: str = "") -> str | None:
    """What `trial(*arguments)` finds wrong on this machine, None: nothing. What ends its process is
    wrong, too.

    Args:
        trial: a function of a module, which pickle finds by its name.
        arguments: what tells this trial from others, by `repr`.
        of_library: the key of the library for the CPU, which is tried in this process.
    """
    words = (trial.__module__, trial.__qualname__, *map(repr, arguments), *_versions(), of_library)
    call = trial if of_library else partial(_apart, trial)
    stem, folder = (
        f"trial-{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:16]}",
        kept.folder(),
    )
    try:
        with kept.own_folder(folder, make=True) as place, FileLock(folder / f"{stem}.lock"):
            verdict = kept.read(place, stem, SUFFIX)
            if verdict is None:
                fault = call(*arguments)
                # A GPU that has no memory left today may have it tomorrow.
                if fault is None or not (of_library or "OutOfMemoryError" in fault):
                    kept.write(place, stem, (fault or "").encode(), SUFFIX)
                return fault
            return verdict.decode() or None
    except OSError as error:
        if not of_library:  # which has said so when it was loaded
            say(f"relpos: what programs for the GPU were found right cannot be kept: {error}")
        return call(*arguments)


def _apart(trial: Trial, *arguments: object) -> str | None:
    """Calls the trial in a process of its own; here where there can be none, as on a GPU that one
    process alone may use."""
    say("relpos: trying programs on this GPU in a process of their own, once: some ten seconds")
    command = [sys.executable, "-P", "-c", f"from {__name__} import answer; answer()"]
    done = subprocess.run(
        command,
        input=pickle.dumps((trial, arguments)),
        capture_output=True,
        check=False,
    )
    if done.returncode < 0:
        return f"the process that tried it was ended by {signal.Signals(-done.returncode).name}"
    if done.returncode:
        return trial(*arguments)
    fault: str | None = json.loads(done.stdout.splitlines()[-1])
    return fault


def answer() -> None:
    """Calls the trial that comes on stdin and prints what it finds wrong."""
    if torch.cuda.is_available():
        torch.cuda.init()  # where this process gets no GPU, it ends here, and finds nothing wrong
    trial, arguments = pickle.load(sys.stdin.buffer)
    print(json.dumps(trial(*arguments)))


@cache
def _versions() -> tuple[str, ...]:
    """What a program's result may depend on: the network's code, torch, Triton and the GPU."""
    sources = sorted(Path(__file__).parents[1].rglob("*.py"))
    code = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = ""
    gpu = (
        (torch.cuda.get_device_name(), str(torch.cuda.get_device_capability()))
        if torch.cuda.is_available()
        else ()
    )
    return code, torch.__version__, triton, *gpu


def fault_of(kernel: str, kind: Kind) -> str | None:
    """What is wrong with the kernel of this name for this kind of call; None: nothing."""
    # Whatever mode the caller is in, gradients are needed here, and number formats are those of
    # `kind`.
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(kind.device.type, enabled=False),
    ):
        for n, padded in product(LENGTHS, (True, False)):
            try:
                fault = compare(import_module(kernel), kind, n, padded, RATE if padded else 0.0)
            except (
                Exception
            ) as error:  # of any kind: the kernel is optional, and training goes on without it
                fault = with_class(error)
            if fault:
                return fault
    return None


def compare(kernel: ModuleType, kind: Kind, n: int, padded: bool, rate: float) -> str | None:
    """Names the first of output and gradients that is too far from float64; None where the kernel
    equals `eager`."""
    exact = results(eager, kind, n, padded, rate, torch.float64)
    plain = results(eager, kind, n, padded, rate, kind.dtype)
    tested = results(kernel, kind, n, padded, rate, kind.dtype)
    for name, expected in exact.items():
        if not close(tested[name], plain[name], expected, kind.dtype):
            error = float((tested[name] - expected).norm() / expected.norm())
            return f"its {name} is off by {error:.1e} of the norm at n={n}"
    return None


def close(tested: Tensor, plain: Tensor, exact: Tensor, dtype: torch.dtype) -> bool:
    """Whether `tested` is about as near to `exact` as `plain` is, which the definition gives in the
    same number format."""
    return float((tested - exact).norm()) <= allowed(plain, exact, dtype)  # false of NaN


def allowed(plain: Tensor, exact: Tensor, dtype: torch.dtype) -> float:
    """The largest distance from `exact`."""
    return FACTOR * float((plain - exact).norm()) + ROUNDINGS * torch.finfo(dtype).eps * float(
        exact.norm()
    )


def results(
    kernel: ModuleType,
    kind: Kind,
    n: int,
    padded: bool,
    rate: float,
    dtype: torch.dtype,
) -> dict[str, Tensor]:
    """Output and gradients in float64 by name."""
    full = (BATCH, HEADS, n, kind.head_dim)
    shapes: dict[str, tuple[int, ...]] = (
        {"q": full, "k": full, "v": full} if kind.content else {"v": full}
    )
    if kind.offset:
        shapes["offset"] = (HEADS, 2 * n - 1)
    if kind.query:
        shapes["query"] = (*full[:3], kind.query)
    if kind.key:
        shapes["key"] = (*full[:3], kind.key)
    heads = () if kind.narrow else (HEADS,)
    if kind.query and kind.query_table:
        shapes["query_table"] = (*heads, kind.query, kind.query_table)
    if kind.key and kind.key_table:
        shapes["key_table"] = (*heads, kind.key, kind.key_table)
    if kind.query and kind.query_bias:
        shapes["query_bias"] = (HEADS, kind.query_table or kind.query)
    if kind.dense:
        shapes["dense"] = (1, HEADS, n, n)
    if kind.value:
        shapes["value"] = (kind.value, kind.head_dim)
    x = {
        name: _numbers(number, shape, kind).to(dtype).requires_grad_()
        for number, (name, shape) in enumerate(shapes.items())
    }
    columns = None
    if kind.columns:
        width = min(
            table for table in (kind.query_table or kind.query, kind.key_table or kind.key) if table
        )
        columns = 3 * torch.arange(2 * n - 1, device=kind.device) // 2 % width
    mask, given, held = None, dict(x), None
    if padded:
        mask = torch.ones(BATCH, n, dtype=torch.bool, device=kind.device)
        mask[1, n - n // 2 :] = False
        mask[0, n - 2 - n // 20 :] = not kind.packed
        if kind.packed and kernel is not eager and kernel.packs(x["v"], n):
            # Some padding is held, too, and no sequence begins where it would in padded rows.
            held = Tokens.first(
                BATCH,
                n,
                torch.arange(BATCH * n, device=kind.device).view(BATCH, n)[:, :-1].flatten(),
            )
            given |= {
                name: held.take_heads(value)
                for name, value in x.items()
                if value.shape[:3] == full[:3]
            }
    filled = {name: value for name, value in given.items() if name not in "qkv"}
    terms = Terms(
        **filled,
        outside=kind.outside,
        columns=columns,
        reach=kind.reach,
    )
    draw = Draw(rate, 1234567)
    packed = {} if held is None else {"held": held}
    y = kernel.attention(*map(given.get, "qkv"), terms, mask, draw, **packed)
    y = y if held is None else held.spread_heads(y)
    if mask is not None:  # what padding gets means nothing
        y = y * mask[:, None, :, None]
    y.backward(_numbers(99, full, kind).to(y.dtype))
    grads = {
        f"gradient of {name}": value.grad for name, value in x.items() if value.grad is not None
    }
    return {name: value.detach().double() for name, value in ({"output": y} | grads).items()}


def _numbers(number: int, shape: tuple[int, ...], kind: Kind) -> Tensor:
    """Normally distributed numbers that `kind.dtype` holds exactly, so that every number format
    starts from the same."""
    count = torch.Size(shape).numel()
    drawn = normal(number, torch.arange(count, device=kind.device)).view(shape) * 0.7
    return drawn.to(kind.dtype).to(torch.float64)

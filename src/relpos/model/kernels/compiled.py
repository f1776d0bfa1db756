"""Attention in one sweep for each sequence and head, compiled for the processor at hand (cpu.cpp).
Equal to `eager`.

No permuted copies of q, k and v, no passes over scores that have left the cache, and dropout masks
are drawn again in the backward pass instead of kept. Storage is float32 or bfloat16, arithmetic
float32. Gradients of tables are summed in a fixed order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from relpos.errors import RelposError
from relpos.model.dropout import Draw, axis_words, rescale, threshold, unmixed
from relpos.model.kernels import library
from relpos.model.position.base import Terms
from relpos.model.precision import compute_dtype
from relpos.model.shape import Heads, Mask, mapped

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int64
LANES = 16
"""A row of probabilities is filled up to whole vectors of so many numbers."""
PARTS = 4
"""The gradients of factored kernels' tables, which are large, are summed in so many runs of
sequences."""


def fields(*groups: tuple[type, str]) -> list[tuple[str, type]]:
    """The `_fields_` of a structure of cpu.cpp: types, with the names of each."""
    return [(name, kind) for kind, names in groups for name in names.split()]


class _View(ctypes.Structure):
    _fields_ = fields(
        (_POINTER, "data"),
        (_INT, "batch head token"),
    )


class DropoutCall(ctypes.Structure):
    """`Dropout` of cpu.cpp."""

    _fields_ = fields(
        (_POINTER, "rows heads columns"),
        (_INT, "key threshold"),
        (ctypes.c_float, "rescale"),
    )


class _Factors(ctypes.Structure):
    """`Factors` of cpu.cpp."""

    _fields_ = fields(
        (_View, "x grad_x"),
        (_POINTER, "table turned grad_table"),
        (_INT, "rank head"),
    )


class AttentionCall(ctypes.Structure):
    """`AttentionCall` of cpu.cpp."""

    _fields_ = fields(
        (_INT, "batch heads n width"),
        (_POINTER, "starts"),
        (ctypes.c_float, "scale"),
        (_View, "q k v y grad_q grad_k grad_v"),
        (_POINTER, "p offset query key value dense columns"),
        (_INT, "query_width key_width value_width dense_batch"),
        (_POINTER, "grad_offset grad_query grad_key grad_value grad_dense mask"),
        (_Factors, "query_factors key_factors"),
        (DropoutCall, "dropout"),
        (_INT, "parts zero reach threads"),
    )


def serves(x: Tensor, training: bool) -> bool:
    """Whether the library is there and works on tensors like x. The first training on a CPU builds
    it."""
    dtype = compute_dtype(x)
    if (
        x.device.type != "cpu"
        or dtype not in (torch.float32, torch.bfloat16)
        or torch.compiler.is_compiling()
    ):
        return False
    return library.load(build=training) is not None


def missing() -> str | None:
    """Why there is no library; None where there is one."""
    if library.load(build=False):
        return None
    return "needs Linux, a C++ compiler (g++, or what CXX names) and RELPOS_COMPILE not 0"


def supports(terms: Terms, v: Heads, training: bool) -> bool:
    """On a CPU in float32 and bfloat16."""
    return serves(v, training)


def pointer(x: Tensor | None) -> int | None:
    """Where the numbers are; None for none."""
    if x is None:
        return None
    return x.data_ptr()


def dropout_call(shape: Sequence[int], draw: Draw) -> tuple[DropoutCall, list[Tensor]]:
    """What decides the masks of a tensor of this shape, and the tensors that must live as long."""
    if draw.rate == 0:
        return DropoutCall(None, None, None, 0, 0, 1.0), []
    rows, columns = unmixed(torch.Size(shape), draw, torch.device("cpu"))
    rows = rows.contiguous()
    heads = None
    if len(shape) == 4:
        heads = axis_words(shape[1], rows.device)
    addresses = map(pointer, (rows, heads, columns))
    return DropoutCall(*addresses, int(draw.key), threshold(draw.rate), rescale(draw.rate)), [rows]


def run(name: str, call: ctypes.Structure, dtype: torch.dtype, backward: bool) -> None:
    """Calls a function of the library."""
    cdll = library.load(build=True)
    assert cdll is not None
    getattr(cdll, name)(
        ctypes.byref(call),
        ctypes.c_int(dtype == torch.bfloat16),
        ctypes.c_int(backward),
    )


def _in_rows(x: Tensor) -> Tensor:
    """x or a copy of it, in which a token's numbers lie side by side."""
    if x.stride(3) == 1 and x.stride(2) >= x.shape[3]:
        return x
    # `contiguous` keeps the stride of an axis of one token, whatever it is, and products refuse one
    # below the width.
    return x.clone(memory_format=torch.contiguous_format)


def _view(x: Tensor | None) -> _View:
    if x is None:
        return _View()
    return _View(x.data_ptr(), *x.stride()[:3])


def _width(x: Tensor | None, table: Tensor | None) -> int:
    """The numbers of a window: of the product with the table, where there is one."""
    if table is not None:
        x = table
    if x is None:
        return 0
    return x.shape[-1]


def _step(x: Tensor | None) -> int:
    """Numbers from one entry of the first axis to the next; 0 where one serves all."""
    if x is None or len(x) == 1:
        return 0
    return x.stride(0)


class Rest(NamedTuple):
    """What is neither multiplied nor added.

    Args:
        starts: (batch + 1,) where each sequence begins, if the vectors of all are one row; q, k and
            v are then (1, H, T, D).
        n: tokens of the longest sequence, where there are `starts`.
        shared: the left factors of kernels are q and k themselves, whose gradients are then sums.
    """

    outside: str
    reach: int | None
    draw: Draw
    scale: float
    columns: Tensor | None = None
    mask: Tensor | None = None
    starts: Tensor | None = None
    n: int = 0
    shared: bool = False

    def sizes(self, v: Tensor) -> tuple[int, int, int, int]:
        """batch, heads, n, width."""
        batch, heads, n, width = v.shape
        return (batch if self.starts is None else len(self.starts) - 1), heads, self.n or n, width


class Three(NamedTuple):
    """Queries and keys, where there are any, and values, (B, H, n, D); or their gradients."""

    q: Tensor | None
    k: Tensor | None
    v: Tensor


class Addends(NamedTuple):
    """What the library reads of `Terms`: with a table, query or key is the left factor of its
    kernels."""

    offset: Tensor | None
    query: Tensor | None
    key: Tensor | None
    value: Tensor | None
    dense: Tensor | None
    query_table: Tensor | None
    key_table: Tensor | None

    def stored(self, dtype: torch.dtype) -> Addends:
        """Kernels and tables of sums in float32, what is multiplied in the number format of q, k
        and v."""
        offset, value = mapped(lambda x: x.float().contiguous(), self.offset, self.value)
        dense, *tables = mapped(
            lambda x: x.to(dtype).contiguous(),
            self.dense,
            self.query_table,
            self.key_table,
        )
        windows: list[Tensor | None] = []
        for x, table in self.pairs:
            if x is not None and table is None:
                x = x.float().contiguous()
            elif x is not None:
                x = _in_rows(x.to(dtype))
            windows.append(x)
        query, key = windows
        return Addends(offset, query, key, value, dense, *tables)

    @property
    def pairs(self) -> tuple[tuple[Tensor | None, Tensor | None], ...]:
        """Of queries and of keys."""
        return (self.query, self.query_table), (self.key, self.key_table)

    @property
    def factors(self) -> list[tuple[Tensor, Tensor] | None]:
        """x and table of the queries' kernels and of the keys', where they are factored."""
        factors: list[tuple[Tensor, Tensor] | None] = [None, None]
        for place, (x, table) in enumerate(self.pairs):
            if x is not None and table is not None:
                factors[place] = x, table
        return factors


class _CompiledAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor | None, k: Tensor | None, v: Tensor, rest: Rest, keep: bool, *terms: Tensor | None,
    ) -> Tensor:  # fmt: skip
        stored = Addends(*terms).stored(v.dtype)
        of_pairs = Three(*mapped(_in_rows, q, k, v))  # type: ignore[arg-type]
        [columns] = mapped(lambda x: x.to(torch.int32).contiguous(), rest.columns)
        [mask] = mapped(Tensor.contiguous, rest.mask)
        rest = rest._replace(columns=columns, mask=mask)
        y, p = forward(of_pairs, stored, rest, torch.empty_like(v), keep)
        ctx.save_for_backward(*of_pairs, p, *stored)
        ctx.rest, ctx.types = rest, mapped(lambda x: x.dtype, *terms)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, p, *saved = ctx.saved_tensors
        terms = Addends(*saved)
        grads = Three(*mapped(torch.empty_like, q, k, v))  # type: ignore[arg-type]
        sums = backward(Three(q, k, v), terms, ctx.rest, _in_rows(grad), p, grads)
        return *grads, None, None, *summed(sums, terms, ctx.types)


def forward(
    of_pairs: Three,
    terms: Addends,
    rest: Rest,
    y: Tensor,
    keep: bool,
) -> tuple[Tensor, Tensor | None]:
    """Writes the output to y; y, and the probabilities, where the backward pass needs them."""
    p = probabilities(of_pairs, rest, keep)
    call, alive = forward_call(of_pairs, y, p, terms, rest)
    run("relpos_attention", call, y.dtype, backward=False)
    del alive  # the call holds addresses only: until here the tensors had to live
    return y, p


def probabilities(of_pairs: Three, rest: Rest, keep: bool) -> Tensor | None:
    """Room for them, where the backward pass needs them, or dropout."""
    if not keep and rest.draw.rate == 0:
        return None
    batch, heads, n, _ = rest.sizes(of_pairs.v)
    return of_pairs.v.new_empty(batch, heads, n, -(-n // LANES) * LANES)


def backward(
    of_pairs: Three,
    terms: Addends,
    rest: Rest,
    grad: Tensor,
    p: Tensor,
    grads: Three,
) -> Addends:
    """Writes the gradients of q, k and v to `grads`; those of the terms, still to be `summed`."""
    call, sums, alive = backward_call(of_pairs, terms, rest, grad, p, grads)
    run("relpos_attention", call, of_pairs.v.dtype, backward=True)
    del alive
    return sums


def backward_call(
    of_pairs: Three,
    terms: Addends,
    rest: Rest,
    grad: Tensor,
    p: Tensor,
    grads: Three,
) -> tuple[AttentionCall, Addends, list[Tensor]]:
    """The call; where it writes the gradients of the terms; and what must live as long."""
    call, alive = forward_call(of_pairs, grad, p, terms, rest)
    call.grad_q, call.grad_k, call.grad_v = map(_view, grads)
    sums = _sums(terms, of_pairs, grads, rest, call.parts)
    call.grad_offset, call.grad_value, call.grad_dense = map(
        pointer,
        (sums.offset, sums.value, sums.dense),
    )
    call.grad_query, call.grad_key = map(pointer, (sums.query, sums.key))
    for factors, pair in zip((call.query_factors, call.key_factors), sums.factors, strict=True):
        if pair is not None:
            factors.grad_x = _view(pair[0])
            factors.grad_table = pointer(pair[1])
    return call, sums, alive


def summed(
    sums: Addends,
    terms: Addends,
    types: Sequence[torch.dtype | None],
) -> list[Tensor | None]:
    """The gradients of the terms in these number formats."""
    gradients: list[Tensor | None] = []
    for total, part, dtype in zip(sums, terms, types, strict=True):
        if total is None or part is None:
            gradients.append(None)
        else:
            gradients.append(total.sum_to_size(part.shape).to(dtype))
    return gradients


def _sums(terms: Addends, of_pairs: Three, grads: Three, rest: Rest, parts: int) -> Addends:
    """Room for the gradients of the terms. What sequences share has sums of its own for each of
    them, or for each part of the batch, which are added up afterwards: threads that added into one
    would do so in another order each time."""
    batch, heads, n, _ = rest.sizes(of_pairs.v)
    zeros = partial(of_pairs.v.new_zeros, dtype=torch.float32)
    windows: list[Tensor | None] = []
    for (x, table), grad in zip(terms.pairs, grads[:2], strict=True):
        if x is not None and table is None:
            x = zeros(x.shape)
        elif x is not None and rest.shared:
            x = grad
        elif x is not None:
            x = torch.empty_like(x)
        windows.append(x)
    query, key = windows
    [offset] = mapped(lambda x: zeros((batch, *x.shape)), terms.offset)
    [value] = mapped(lambda x: zeros((batch * heads, *x.shape)), terms.value)
    [dense] = mapped(lambda x: x.new_empty(batch, heads, n, n), terms.dense)
    tables = mapped(
        lambda x: zeros((parts, heads, *x.shape[1:])),
        terms.query_table,
        terms.key_table,
    )
    return Addends(offset, query, key, value, dense, *tables)


def forward_call(
    of_pairs: Three,
    y: Tensor,
    p: Tensor | None,
    terms: Addends,
    rest: Rest,
) -> tuple[AttentionCall, list[Tensor]]:
    """What both passes need, and the tensors that must live as long."""
    batch, heads, n, width = rest.sizes(of_pairs.v)
    dropout, alive = dropout_call((batch, heads, n, n), rest.draw)
    call = AttentionCall(batch, heads, n, width, pointer(rest.starts), rest.scale)
    call.q, call.k, call.v, call.y = map(_view, (*of_pairs, y))
    call.p, call.columns, call.mask = map(pointer, (p, rest.columns, rest.mask))
    call.dropout = dropout
    call.offset, call.query, call.key = map(pointer, (terms.offset, terms.query, terms.key))
    call.value = pointer(terms.value)
    call.dense = pointer(terms.dense)
    call.query_width, call.key_width = (_width(x, table) for x, table in terms.pairs)
    if terms.value is not None:
        call.value_width = len(terms.value)
    call.dense_batch = _step(terms.dense)
    # Each sequence is a run of its own, unless that would mean as many copies of a large table.
    call.parts = batch
    for name, factors in zip(("query_factors", "key_factors"), terms.factors, strict=True):
        if factors is not None:
            x, table = factors
            turned = table.transpose(1, 2).contiguous()
            alive.append(turned)
            setattr(
                call,
                name,
                _Factors(
                    _view(x),
                    _View(),
                    pointer(table),
                    pointer(turned),
                    None,
                    table.shape[1],
                    _step(table),
                ),
            )
            call.parts = min(PARTS, batch)
    widths = [width for width in (call.query_width, call.key_width, call.value_width) if width]
    # no offset lies outside of such windows
    call.zero = rest.outside == "zero" or min(widths, default=0) >= 2 * n - 1
    call.threads = torch.get_num_threads()
    call.reach = n
    if rest.reach is not None:
        call.reach = rest.reach
    return call, alive


def _check(terms: Addends, v: Tensor) -> None:
    # The library reads by addresses: beyond the end of a smaller tensor of a user's own scheme,
    # where torch would broadcast.
    batch, heads, n, width = v.shape
    of_tokens = (batch, heads, n, -1)
    for name, shape in {
        "offset": (heads, 2 * n - 1), "query": of_tokens, "key": of_tokens, "value": (-1, width), "dense": (-1, heads, n, n),
    }.items():  # fmt: skip
        x: Tensor | None = getattr(terms, name)
        if x is not None and (
            x.dim() != len(shape)
            or any(a != b for a, b in zip(x.shape, shape, strict=True) if b >= 0)
        ):
            raise RelposError(
                f"terms.{name} has the shape {tuple(x.shape)}; {shape} is expected, "
                f"-1 standing for any number"
            )


def attention(
    q: Heads | None, k: Heads | None, v: Heads, terms: Terms, mask: Mask | None, dropout: Draw | tuple[float, int],
    scale: float = 1.0,
) -> Heads:  # fmt: skip
    """y; `scale` is the factor of q·k."""
    dtype = compute_dtype(v)
    terms = terms.multiplied(narrow=True)
    if q is None or k is None:
        q = k = None
    else:
        q, k = q.to(dtype), k.to(dtype)
    v, addends = v.to(dtype), Addends(*(getattr(terms, name) for name in Addends._fields))
    _check(addends, v)
    keep = torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in (q, k, v, *addends)
    )
    rest = Rest(terms.outside, terms.reach, Draw(*dropout), scale, terms.columns, mask)
    result: Heads = _CompiledAttention.apply(q, k, v, rest, keep, *addends)
    return result

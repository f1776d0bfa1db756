"""A layer of the papers' networks as one step of differentiation, on a CPU.

    z = LN(x + drop(W_o attention(W_qkv x)))        y = LN(z + drop(W_2 GELU(W_1 z)))

Forward and backward pass are one call of the compiled library each. The tokens of all sequences
stand in one row, and none of them is padding where it need not be. In a small network a layer of
many steps spends more time between them than in them; and products of torch's in bfloat16 generate
a program for each new number of tokens, which takes longer than to run it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from relpos.errors import with_class
from relpos.model.block import Block
from relpos.model.conv.base import NoConv
from relpos.model.dropout import Draw, seed_dropout, transformed
from relpos.model.kernels import compiled, proof, sweeps
from relpos.model.kernels.compiled import (
    Addends,
    DropoutCall,
    Rest,
    Three,
    dropout_call,
    fields,
    pointer,
    run,
)
from relpos.model.kernels.sweeps_cpu import PARTS
from relpos.model.position.base import Scheme, Terms, extend
from relpos.model.precision import as_given, compute_dtype, rounded
from relpos.model.shape import Shape, mapped
from relpos.model.tokens import Tokens

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int64
MATRICES = (0, 2, 6, 8)
"""Which of the weights and biases of a layer's parts, in their order, are matrices …"""
VECTORS = (1, 3, 4, 5, 7, 9, 10, 11)
"""… and which are not."""


class _Plan(NamedTuple):
    """What is no differentiable input.

    Args:
        matrices: those of the layer, in the number format of products.
        kept: (R,) the rows of x at which the output is needed; None: all.
        uses: whether kernels are made of the queries, and of the keys.
        draws: of the two sums.
        shape: of the tokens of the output, (R,) or (B, n).
    """

    matrices: tuple[Tensor, ...]
    heads: int
    rest: Rest
    kept: Tensor | None
    uses: tuple[bool, bool]
    draws: Sequence[Draw]
    eps: tuple[float, float]
    shape: Sequence[int]
    keep: bool


class _Call(ctypes.Structure):
    """`LayerCall` of cpu.cpp; its tensors stand in the order that they have there."""

    _fields_ = (
        *fields((_INT, "tokens rows hidden inner")),
        ("of_both", _POINTER * 27),
        ("attention", compiled.AttentionCall),
        ("dropouts", DropoutCall * 2),
        ("eps", ctypes.c_double * 2),
        ("of_backward", _POINTER * 17),
        *fields((_INT, "parts threads")),
    )


class _Saved(NamedTuple):
    """What the backward pass reads of the forward pass, of T tokens, R of which have an output."""

    x: Tensor  # (T, hidden)
    qkv: Tensor  # (T, 3 hidden)
    needed: Tensor  # (R, hidden), the attention's output at these
    p: Tensor | None
    sums: Tensor  # (2, R, hidden), before the norms
    moments: Tensor  # (4, R) of these, mean and 1 / deviation
    z: Tensor  # (R, hidden)
    wide: Tensor  # (R, ffn), W_1 z


class _Layer(torch.autograd.Function):
    @staticmethod
    @as_given
    def forward(ctx: Any, plan: _Plan, x: Tensor, *given: Any) -> Tensor:
        vectors = [given[number].detach().float() for number in VECTORS]
        rows = x.shape[0] if plan.kept is None else plan.kept.shape[0]
        hidden, ffn = plan.matrices[-1].shape
        qkv, y, out = (
            x.new_empty(len(x), 3 * hidden),
            torch.empty_like(x),
            x.new_empty(rows, hidden),
        )
        of_pairs = _split(qkv, plan.heads)
        stored = _stored(plan, of_pairs, given[12:])
        saved = _Saved(
            x,
            qkv,
            y if plan.kept is None else torch.empty_like(out),
            compiled.probabilities(of_pairs, plan.rest, plan.keep),
            x.new_empty(2, rows, hidden),
            x.new_empty(4, rows, dtype=torch.float32),
            torch.empty_like(out),
            x.new_empty(rows, ffn),
        )
        attention, alive = compiled.forward_call(
            of_pairs,
            _by_head(y, plan.heads),
            saved.p,
            stored,
            plan.rest,
        )
        call, room = _call(plan, saved, vectors, attention, out)
        run("relpos_layer", call, x.dtype, backward=False)
        del alive, room  # the call holds addresses only: until here the tensors had to live
        ctx.save_for_backward(*saved, *vectors, *stored)
        ctx.plan, ctx.types = plan, mapped(lambda part: part.dtype, *given)
        ctx.shapes = [part.shape for part in given[:12]]
        return out

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        parts = iter(ctx.saved_tensors)
        saved = _Saved(*islice(parts, len(_Saved._fields)))
        vectors = list(islice(parts, len(VECTORS)))
        stored = Addends(*parts)
        plan: _Plan = ctx.plan
        grad = grad.contiguous()
        grad_x, grad_y, grad_before = (torch.empty_like(saved.x) for _ in range(3))
        grad_qkv, grad_wide = torch.empty_like(saved.qkv), torch.empty_like(saved.wide)
        grad_z = torch.empty_like(grad)
        assert saved.p is not None
        attention, of_terms, alive = compiled.backward_call(
            _split(saved.qkv, plan.heads),
            stored,
            plan.rest,
            _by_head(grad_y, plan.heads),
            saved.p,
            _split(grad_qkv, plan.heads),
        )
        # A sum over no rows, as in a pass without masked tokens, is written by no kernel.
        allocate = grad.new_empty if len(grad) else grad.new_zeros
        gradients = [allocate(shape, dtype=torch.float32) for shape in ctx.shapes]
        width = 4 * grad.shape[1] + saved.wide.shape[1]
        sums = grad.new_zeros(min(PARTS, len(grad)), width, dtype=torch.float32)
        of_backward = (grad, *gradients, grad_wide, grad_z, grad_before, sums)
        call, room = _call(plan, saved, vectors, attention, grad_x, of_backward)
        run("relpos_layer", call, grad.dtype, backward=True)
        del alive, room
        types = ctx.types
        terms = compiled.summed(of_terms, stored, [types[12], None, None, None, None, *types[13:]])
        return (
            None,
            grad_x,
            *(part.to(dtype) for part, dtype in zip(gradients, types[:12], strict=True)),
            terms[0],
            *mapped(lambda part: part[0], *terms[5:]),
        )


def _call(
    plan: _Plan,
    saved: _Saved,
    vectors: Sequence[Tensor],
    attention: compiled.AttentionCall,
    out: Tensor,
    of_backward: Sequence[Tensor] = (),
) -> tuple[_Call, list[Tensor]]:
    """A call, and the tensors that must live as long, besides those that are given."""
    x, _, needed, _, (sum_1, sum_2), moments, z, wide = saved
    room = [torch.empty_like(wide), torch.empty_like(z), torch.empty_like(z)]
    dropouts, words = zip(
        *(dropout_call((*plan.shape, x.shape[1]), draw) for draw in plan.draws), strict=True
    )
    of_both = (
        *(plan.kept, x, *plan.matrices, *vectors, needed),
        *(sum_1, z, wide, sum_2, *moments, out, *room),
    )
    call = _Call(
        len(x),
        len(wide),
        x.shape[1],
        wide.shape[1],
        (_POINTER * 27)(*map(pointer, of_both)),
        attention,
        (DropoutCall * 2)(*dropouts),
        (ctypes.c_double * 2)(*plan.eps),
        (_POINTER * 17)(*map(pointer, of_backward)),
        min(PARTS, len(wide)),
        torch.get_num_threads(),
    )
    return call, [*room, *chain(*words)]


def _by_head(x: Tensor, heads: int) -> Tensor:
    """(T, H · D) → (1, H, T, D)."""
    return x.view(1, len(x), heads, -1).transpose(1, 2)


def _split(qkv: Tensor, heads: int) -> Three:
    """q, k and v, which stand side by side."""
    return Three(*(_by_head(part, heads) for part in qkv.view(len(qkv), 3, -1).unbind(1)))


def _stored(plan: _Plan, of_pairs: Three, terms: Sequence[Tensor | None]) -> Addends:
    offset, *tables = terms
    query: Tensor | None = None
    key: Tensor | None = None
    if plan.uses[0]:
        query = of_pairs.q
    if plan.uses[1]:
        key = of_pairs.k
    dtype = of_pairs.v.dtype
    [beta] = mapped(lambda x: x.float().contiguous(), offset)
    query_table, key_table = mapped(lambda x: x.to(dtype).contiguous()[None], *tables)
    return Addends(
        beta,
        query,
        key,
        None,
        None,
        query_table,
        key_table,
    )


def serves(layer: Any, x: Tensor, call: Any) -> bool:
    """Whether `layer_of` computes this pass: of the papers' layers on a CPU, with a scheme whose
    terms it knows, and of tokens that are the first ones of each sequence."""
    attention, block = layer.attention, layer.block
    plain = (
        block.plain
        and not (block.norm_first or block.glu or block.qk_norm)
        and block.activation == "gelu"
        and tuple(attention.widths) == ("q", "k", "v")
        and attention.conv.by_token
    )
    position = call.position
    plain_scores = (
        position.by_token and position.scale is not None and type(position).see is Scheme.see
    )
    # of an instance: somebody watches what the scheme receives, see `relpos.analysis.recording`
    watched = "terms" in vars(position)
    return (
        x.device.type == "cpu"
        and plain
        and plain_scores
        and not watched
        and not (call.causal or call.maps is not None or transformed())
        and (call.held.at is None or call.held.starts is not None)
        and sweeps.serve(attention.kernel, x, layer.training)
    )


def _terms_of(layer: Any, x: Tensor, call: Any) -> tuple[Terms, Tensor] | None:
    """The terms of a pass, and something of the shape of its values; None where there is more in
    the terms than factors that are queries and keys, and β."""
    shape = layer.attention.shape
    # which the scheme hands on and does not read; NaN, so that a training with one that reads them
    # says so at once
    q, k = (
        x.new_full((), torch.nan).expand(call.held.batch, shape.heads, call.held.n, shape.head_dim)
        for _ in range(2)
    )
    terms: Terms = call.position.terms(call.layer, q, k, call.state)
    if any(part is not None for part in (terms.dense, terms.value, terms.columns)):
        return None
    for given, own, table in (
        (terms.query, q, terms.query_table),
        (terms.key, k, terms.key_table),
    ):
        if given is not None and (given is not own or table is None or table.dim() != 2):
            return None
    return terms, q


class _Given(Scheme):
    """Random terms of a kind."""

    by_token = True

    def __init__(self, kind: proof.Kind) -> None:
        width = kind.head_dim
        super().__init__(
            Shape(
                2,
                width,
                2 * width,
                2 * width,
                1,
                TRIED,
                3 * width,
            )
        )
        self.kind = kind
        sizes = {
            "offset": (kind.offset, 2, 2 * TRIED - 1),
            "query_table": (kind.query_table, width, kind.query_table),
            "key_table": (kind.key_table, width, kind.key_table),
            "query_bias": (kind.query_bias, 2, kind.query_table),
        }
        for name, (is_there, *size) in sizes.items():
            if is_there:
                self.register_parameter(name, nn.Parameter(torch.randn(size)))  # type: ignore[arg-type]

    def terms(self, layer: int, q: Any, k: Any, state: Any) -> Terms:
        given = dict(self._parameters)
        if self.kind.query:
            given["query"] = q
        if self.kind.key:
            given["key"] = k
        return Terms(**given, outside=self.kind.outside, reach=self.kind.reach)


TRIED = 21  # tokens of the longest sequence of a trial


def _results(kind: proof.Kind, dtype: torch.dtype, kernel: str) -> dict[str, Tensor]:
    """Output and gradients of a layer in float64, by name."""
    from relpos.model.attention import Attention, LayerCall
    from relpos.model.encoder import Layer

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        scheme, block = _Given(kind), Block()
        shape = scheme.shape
        attention = Attention(shape, scheme.projections, NoConv(shape), block, kernel)
        layer = Layer(shape, attention, shape.ffn, block)
        mask = torch.arange(TRIED) < torch.tensor([[TRIED], [9]])
        held = Tokens.first(2, TRIED, mask.flatten().nonzero().squeeze(1))
        kept = Tokens(2, TRIED, torch.tensor([0, 3, TRIED + 1, TRIED + 8]))
        x = torch.randn(TRIED + 9, shape.hidden)
    both = nn.ModuleList([scheme, layer]).bfloat16().to(dtype)  # what every number format holds
    seed_dropout(both, 7)
    x = x.bfloat16().to(dtype).requires_grad_()
    call = LayerCall(0, scheme, None, mask, held, kept)
    if kernel == "eager":
        y = layer(x, x, call)[0]
    else:
        terms = _terms_of(layer, x, call)
        assert terms is not None
        y = _computed(layer, x, call, terms[0])
    y.square().sum().backward()
    results: dict[str, Tensor | None] = {"output": y, "gradient of x": x.grad}
    results |= {name: part.grad for name, part in both.named_parameters()}
    return {name: part.detach().double() for name, part in results.items() if part is not None}


def fault_of(kind: proof.Kind) -> str | None:
    """What is wrong with a layer of such terms; None: nothing."""
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
    ):
        try:
            exact, plain, tested = (
                _results(kind, dtype, kernel)
                for dtype, kernel in (
                    (torch.float64, "eager"),
                    (kind.dtype, "eager"),
                    (kind.dtype, "auto"),
                )
            )
        except Exception as error:  # of any kind: training goes on without it
            return with_class(error)
    for name, expected in exact.items():
        if not proof.close(tested[name], plain[name], expected, kind.dtype):
            return f"its {name} is off"
    return None


@cache
def holds(kind: proof.Kind) -> bool:
    """Whether a layer in one step equals plain torch for such terms. Tried once in each process;
    where not, one warning says so."""
    warning = "a layer in one step is not used: {}; steps of their own compute instead"
    return proof.proven("cpu", warning, fault_of, kind)


def layer_of(layer: Any, x: Tensor, call: Any) -> Tensor | None:
    """The layer's output at the tokens `call.kept`; None where the terms of this pass are others
    than it knows, or where it has not proved itself for them."""
    terms = _terms_of(layer, x, call)
    if terms is None or not holds(proof.kind_of(*terms, True)):
        return None
    return _computed(layer, x, call, terms[0])


def _computed(layer: Any, x: Tensor, call: Any, terms: Terms) -> Tensor:
    attention, held, kept = layer.attention, call.held, call.kept
    uses = terms.query is not None, terms.key is not None
    offset = terms.offset
    if terms.query_bias is not None:
        bias = extend(terms.query_bias, held.n, terms.outside)
        if offset is not None:
            bias = offset + bias
        offset = bias
    dtype = compute_dtype(x)
    parts = (
        *(attention.project, attention.output, layer.attention_norm),
        *(layer.widen, layer.narrow, layer.ffn_norm),
    )
    given = [p for part in parts for p in (part.weight, part.bias)]
    matrices = tuple(rounded(given[number], dtype) for number in MATRICES)
    starts = held.starts
    if starts is None:
        starts = torch.arange(0, held.batch * held.n + 1, held.n)
    draws = [
        part.draw(call.layer)._replace(tokens=kept)
        for part in (layer.attention_dropout, layer.ffn_dropout)
    ]
    given += [offset, terms.query_table, terms.key_table]
    keep = torch.is_grad_enabled() and any(
        part is not None and part.requires_grad for part in (x, *given)
    )
    [mask] = mapped(Tensor.contiguous, call.mask)
    shape: tuple[int, ...] = held.batch, held.n
    if kept.at is not None:
        shape = (len(kept.at),)
    rest = Rest(
        terms.outside, terms.reach, attention.dropout.draw(call.layer), call.position.scale,
        mask=mask, starts=starts, n=held.n, shared=True,
    )  # fmt: skip
    plan = _Plan(
        matrices, attention.shape.heads, rest, _rows(kept, held), uses, draws,
        (layer.attention_norm.eps, layer.ffn_norm.eps),
        shape, keep,
    )  # fmt: skip
    attention.ran = "compiled"
    flat = x.to(dtype).flatten(0, -2).contiguous()
    y: Tensor = _Layer.apply(plan, flat, *given)
    return y.view(*plan.shape, x.shape[-1])


def _rows(kept: Tokens, held: Tokens) -> Tensor | None:
    """Which of the rows of `held` are those of `kept`; None: all."""
    if kept is held or kept.at is None:
        return None
    if held.at is None:
        return kept.at
    return torch.searchsorted(held.at, kept.at)

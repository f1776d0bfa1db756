"""A layer of the papers' networks as one step of differentiation, on a CPU.

    z = LN(x + drop(W_o attention(W_qkv x)))        y = LN(z + drop(W_2 GELU(W_1 z)))

Products, attention and the passes between them are those of the compiled library. The tokens of all
sequences stand in one row, and none of them is padding where it need not be. In a small network a
layer of many steps spends more time between them than in them; and products of torch's in bfloat16
generate a program for each new number of tokens, which takes longer than to run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from relpos.errors import with_class
from relpos.model.block import Block
from relpos.model.conv.base import NoConv
from relpos.model.dropout import Draw, seed_dropout, transformed
from relpos.model.kernels import compiled, proof, sweeps, sweeps_cpu
from relpos.model.kernels.compiled import Addends, Rest, Three
from relpos.model.kernels.sweeps_cpu import product, sum_rows
from relpos.model.position.base import Scheme, Terms, extend
from relpos.model.precision import as_given, compute_dtype, rounded
from relpos.model.shape import Shape, mapped
from relpos.model.tokens import Tokens

MATRICES = ("attention.project", "attention.output", "widen", "narrow")
PARTS = (*MATRICES[:2], "attention_norm", *MATRICES[2:], "ffn_norm")


class _Plan(NamedTuple):
    """What is no differentiable input.

    Args:
        matrices: those of `MATRICES`, in the number format of products.
        kept: (K,) the rows of x at which the output is needed; None: all.
        uses: whether kernels are made of the queries, and of the keys.
        draws: of the two sums.
        shape: of the tokens of the output, (K,) or (B, n).
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


class _Layer(torch.autograd.Function):
    """Keeps q, k, v, the probabilities, both sums and W_1 z."""

    @staticmethod
    @as_given
    def forward(ctx: Any, plan: _Plan, x: Tensor, *given: Any) -> Tensor:
        project, output, widen, narrow = plan.matrices
        b_qkv, b_out, gain_1, shift_1, b_in, b_ffn, gain_2, shift_2 = (
            given[number].detach().float() for number in (1, 3, 4, 5, 7, 9, 10, 11)
        )
        qkv = product(x, project, (False, True), b_qkv)
        of_pairs = _split(qkv, plan.heads)
        stored = _stored(plan, of_pairs, given[12:])
        y = x.new_empty(len(x), project.shape[1])
        _, p = compiled.forward(of_pairs, stored, plan.rest, _by_head(y, plan.heads), plan.keep)
        needed, before = y, x
        if plan.kept is not None:
            needed = y.index_select(0, plan.kept)
            before = x.index_select(0, plan.kept)
        z = product(needed, output, (False, True), b_out)
        z, *first = _add_norm(before, z, gain_1, shift_1, plan, 0)
        inner = product(z, widen, (False, True))
        out = product(sweeps_cpu.gelu_forward(inner, b_in), narrow, (False, True), b_ffn)
        out, *second = _add_norm(z, out, gain_2, shift_2, plan, 1)
        ctx.save_for_backward(
            x,
            qkv,
            needed,
            p,
            z,
            inner,
            *first,
            *second,
            gain_1,
            b_in,
            gain_2,
            *stored,
        )
        ctx.plan, ctx.types = plan, mapped(lambda part: part.dtype, *given)
        return out

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (
            x, qkv, needed, p, z, inner, sum_1, mean_1, rstd_1, sum_2, mean_2, rstd_2,
            gain_1, b_in, gain_2, *terms,
        ) = ctx.saved_tensors  # fmt: skip
        stored = Addends(*terms)
        plan: _Plan = ctx.plan
        project, output, widen, narrow = plan.matrices
        shape = (*plan.shape, grad.shape[-1])
        grad_z, grad_ffn, norm_2 = sweeps_cpu.norm_backward(
            grad.contiguous().view(shape),
            [],
            sum_2,
            mean_2,
            rstd_2,
            gain_2,
            plan.draws[1],
        )
        grad_z = grad_z.flatten(0, -2)
        grad_ffn = grad_ffn.flatten(0, -2)
        grad_inner, active, b_in_sums = sweeps_cpu.gelu_backward(
            inner,
            b_in,
            product(grad_ffn, narrow),
            None,
        )
        of_narrow = product(grad_ffn, active, (True, False), narrow=False)
        of_widen = product(grad_inner, z, (True, False), narrow=False)
        grad_z = product(grad_inner, widen, beside=grad_z)
        before, grad_out, norm_1 = sweeps_cpu.norm_backward(
            grad_z.view(shape),
            [],
            sum_1,
            mean_1,
            rstd_1,
            gain_1,
            plan.draws[0],
        )
        before = before.flatten(0, -2)
        grad_out = grad_out.flatten(0, -2)
        of_output = product(grad_out, needed, (True, False), narrow=False)
        grad_y = product(grad_out, output)
        if plan.kept is not None:
            grad_y, before = (
                part.new_zeros(len(x), part.shape[1]).index_copy_(0, plan.kept, part)
                for part in (grad_y, before)
            )
        grads = torch.empty_like(qkv)
        sums = compiled.backward(
            _split(qkv, plan.heads), stored, plan.rest, _by_head(grad_y, plan.heads), p,
            _split(grads, plan.heads),
        )  # fmt: skip
        of_project = product(grads, x, (True, False), narrow=False)
        grad_x = product(grads, project, beside=before)
        of_biases = [sum_rows(part[None])[0] for part in (grads, grad_out, b_in_sums, grad_ffn)]
        gradients = [
            of_project, of_biases[0], of_output, of_biases[1], *sum_rows(norm_1),
            of_widen, of_biases[2], of_narrow, of_biases[3], *sum_rows(norm_2),
        ]  # fmt: skip
        types = ctx.types
        of_terms = compiled.summed(sums, stored, [types[12], None, None, None, None, *types[13:]])
        return (
            None,
            grad_x,
            *(part.to(dtype) for part, dtype in zip(gradients, types[:12], strict=True)),
            of_terms[0],
            *mapped(lambda part: part[0], *of_terms[5:]),
        )


def _add_norm(
    x: Tensor,
    y: Tensor,
    gain: Tensor,
    shift: Tensor,
    plan: _Plan,
    number: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(tokens, hidden) LN(x + drop(y)), and what its gradient needs."""
    shape = (*plan.shape, x.shape[-1])
    out, *kept = sweeps_cpu.norm_forward(
        x.view(shape),
        y.view(shape),
        gain,
        shift,
        plan.eps[number],
        plan.draws[number],
    )
    return out.flatten(0, -2), *kept  # type: ignore[return-value]


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
    parts = [layer.get_submodule(name) for name in PARTS]
    matrices = tuple(rounded(layer.get_submodule(name).weight, dtype) for name in MATRICES)
    starts = held.starts
    if starts is None:
        starts = torch.arange(0, held.batch * held.n + 1, held.n)
    draws = [
        part.draw(call.layer)._replace(tokens=kept)
        for part in (layer.attention_dropout, layer.ffn_dropout)
    ]
    given = [p for part in parts for p in (part.weight, part.bias)]
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
    attention.ran = compiled.__name__.rpartition(".")[2]
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

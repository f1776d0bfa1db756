"""`relpos.attention`: the equation's holes as one function that any torch model can call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from relpos.counter import fold
from relpos.errors import RelposError
from relpos.model import kernels
from relpos.model.dropout import Draw, fresh_key
from relpos.model.position.base import Outside, Terms
from relpos.model.precision import compute_dtype
from relpos.ranges import Natural, Rate, check

FORMATS = (torch.float32, torch.bfloat16, torch.float64)


def attention(
    q: Tensor | None,
    k: Tensor | None,
    v: Tensor,
    *,
    offset: Tensor | None = None,
    from_query: Tensor | None = None,
    from_key: Tensor | None = None,
    dense: Tensor | None = None,
    value: Tensor | None = None,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    causal: bool = False,
    outside: Outside = "clamp",
    scale: float | None = None,
) -> Tensor:
    """Self-attention with learned position terms, and gradients for each of them.

        s_ij = scale · q_i·k_j + β_{j−i} + a_{i, j−i} + b_{j, i−j} + D_ij       y_i = Σ_j softmax_j(s_ij) (v_j + u_{j−i})

    An offset is counted from the token that owns a kernel to the other one; +1 is the next token.
    Windows of 2k+1 weights hold the offsets −k … k. No tensor of all pairs is made of β, a, b or u
    where a compiled kernel serves: on CUDA that in Triton, on a CPU in float32 and bfloat16 the one
    that the first call with gradients compiles (some ten seconds, once; RELPOS_COMPILE=0 leaves it
    out). Elsewhere plain torch computes the same. Before its first use in a process, a compiled
    kernel is compared with plain torch for terms of this kind; if they differ, a warning says so
    and plain torch serves.

    All gradients are summed in a fixed order by compiled kernels, so that a call gives the same
    bits each time. There are none of second order.

    Args:
        q, k, v: (B, heads, n, head_dim), float32, bfloat16 or float64. q and k both None: the terms
            alone make the scores.
        offset: β (heads, 2n−1), offset o in column o + n − 1.
        from_query: a (B, heads, n, 2k+1), a window made from each query, offset o in column o + k.
            What hides a pair, such as −∞, belongs into `offset` or `dense`: plain torch adds and
            subtracts the weights of a window.
        from_key: b (B, heads, n, 2k+1), a window made from each key.
        dense: D (1 or B, heads, n, n).
        value: u (2k+1, head_dim), added to the values.
        mask: (B, n) bool, true at the tokens that may be read; None: all. Where it leaves a token
            none, y is 0.
        dropout: the share of probabilities that are set to 0; as in `scaled_dot_product_attention`,
            whatever mode a module is in.
        seed: an int makes dropout the same in each call and on every device. None draws it from
            torch's generator.
        causal: whether token i reads the tokens j ≤ i alone.
        outside: what a window weighs beyond ±k: `clamp` as much as at its end, `zero` nothing.
        scale: factor of q·k; None: 1/√head_dim.

    Returns:
        (B, heads, n, head_dim) in the number format of v; under `torch.autocast` in autocast's,
        like other products.

    Raises:
        RelposError: a shape, a number format, a device or a value does not fit; names the argument
            and what it should be.

    Example:
        >>> q, k, v = torch.randn(3, 2, 4, 10, 16).unbind()  # 2 sequences, 4 heads, 10 tokens, 16 channels
        >>> beta = torch.zeros(4, 19, requires_grad=True)  # a learned bias for each head and each offset from −9 to 9
        >>> table = torch.zeros(16, 5, requires_grad=True)  # Shaw et al.: a learned vector for each offset from −2 to 2
        >>> y = attention(q, k, v, offset=beta, from_query=q @ table * 16**-0.5)
        >>> y.sum().backward()
        >>> beta.grad.shape, table.grad.shape
        (torch.Size([4, 19]), torch.Size([16, 5]))
        >>> torch.allclose(y, torch.nn.functional.scaled_dot_product_attention(q, k, v), atol=1e-6)  # they begin at 0
        True
    """
    compiling = torch.compiler.is_compiling()  # a compiler cannot follow the checks
    if not compiling:
        for name, number, allowed in (
            ("outside", outside, Outside),
            ("dropout", dropout, Rate),
            ("seed", seed, Natural | None),
        ):
            check(name, number, allowed)
    if (q is None) != (k is None):
        raise RelposError(
            f"{'q' if q is None else 'k'} is None and {'k' if q is None else 'q'} is "
            f"not: give both, or neither"
        )
    given = {"q": q, "k": k, "v": v, "offset": offset, "dense": dense, "value": value, "mask": mask}
    given |= {"from_query": from_query, "from_key": from_key}
    if not compiling:
        _check({name: x for name, x in given.items() if x is not None or name == "v"})
    terms = Terms(offset, from_query, from_key, dense, value, outside)
    if causal:
        terms = terms.causal(v)
    # A function is in no training mode: that gradients are wanted stands for it.
    needed = torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in given.values()
    )
    factor = v.shape[-1] ** -0.5 if scale is None else scale
    draw = (
        Draw(0.0, 0) if dropout == 0 else Draw(dropout, fresh_key() if seed is None else fold(seed))
    )
    y = kernels.attend(
        "auto",
        q,
        k,
        v,
        terms,
        mask,
        draw,
        needed,
        factor,
    )[0]
    if mask is None:
        return y
    # else kernels give what means nothing, gradients too
    reads = mask.cumsum(1) > 0 if causal else mask.any(1, keepdim=True)
    return y.masked_fill(~reads[:, None, :, None], 0.0)


def _check(given: dict[str, Any]) -> None:
    """Raises RelposError where shapes, number formats or devices do not go together."""
    for name, x in given.items():
        if not isinstance(x, Tensor):
            raise RelposError(f"{name} is of type {type(x).__name__}; it must be a tensor")
    v = given["v"]
    if v.dim() != 4 or not v.numel() or v.dtype not in FORMATS:
        raise RelposError(
            f"v is {_described(v)}; expected (batch, heads, n, head_dim), none of them 0, of "
            f"float32, bfloat16 or float64"
        )
    if compute_dtype(v) not in FORMATS:
        raise RelposError("torch.autocast is in float16; bfloat16 is expected")
    batch, heads, n, width = v.shape
    shapes: dict[str, tuple[int | str, ...]] = {
        "q": (batch, heads, n, width),
        "k": (batch, heads, n, width),
        "offset": (heads, 2 * n - 1),
        "from_query": (batch, heads, n, "2k+1"),
        "from_key": (batch, heads, n, "2k+1"),
        "dense": (f"1 or {batch}" if batch > 1 else 1, heads, n, n),
        "value": ("2k+1", width),
        "mask": (batch, n),
    }
    for name, shape in shapes.items():
        x = given.get(name)
        if x is None:
            continue
        if x.dim() != len(shape) or not all(
            _fits(size, wanted) for size, wanted in zip(x.shape, shape, strict=True)
        ):
            raise RelposError(
                f"{name} is {_described(x)}; with v {tuple(v.shape)} it must be "
                f"({', '.join(map(str, shape))})"
            )
        if x.device != v.device:
            raise RelposError(
                f"{name} is on {x.device} and v on {v.device}; all tensors must be on one device"
            )
        if name == "mask" and x.dtype != torch.bool:
            raise RelposError(
                f"mask is {_described(x)}; it must be bool, true at the tokens that "
                f"may be read: mask.bool()"
            )
        if name in "qk" and x.dtype != v.dtype and not torch.is_autocast_enabled(v.device.type):
            raise RelposError(
                f"{name} is {_described(x)} and v is {_described(v)}; they must have "
                f"one number format"
            )
        if name != "mask" and x.dtype not in FORMATS:
            raise RelposError(f"{name} is {_described(x)}; it must be float32, bfloat16 or float64")


def _fits(size: int, wanted: int | str) -> bool:
    if wanted == "2k+1":
        return size % 2 == 1
    return str(size) in str(wanted).split(" or ")


def _described(x: Tensor) -> str:
    return f"{tuple(x.shape)} of {str(x.dtype).removeprefix('torch.')}"

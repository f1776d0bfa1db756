"""Attention kernels: ways of computing the attention. `eager` is the definition; the others equal
it and say what they support.

An attention kernel is a module with two functions. `supports(terms, v, training)` says whether it
serves these terms for values like v, and `attention(q, k, v, terms, mask, dropout, scale)`
computes. An optional one is used only after it has proved itself (proof.py). That of Triton may be
given the tokens of all sequences in one row, see `packs`.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor

from relpos.errors import RelposError
from relpos.model.dropout import Draw, transformed
from relpos.model.kernels import compiled, eager, fused, proof, triton
from relpos.model.kernels.rate import bf16_gain as bf16_gain
from relpos.model.position.base import Terms
from relpos.model.shape import Heads, Masks, mapped
from relpos.model.tokens import Tokens

FASTEST_FIRST: tuple[ModuleType, ...] = (triton, compiled, fused, eager)
OPTIONAL: frozenset[ModuleType] = frozenset({triton, compiled})
"""They need hardware or tools that may be missing."""
Name = Literal["auto", "triton", "compiled", "fused", "eager"]


def name_of(kernel: ModuleType) -> str:
    return kernel.__name__.rpartition(".")[2]


def attend(
    name: str,
    q: Heads | None,
    k: Heads | None,
    v: Heads,
    terms: Terms,
    mask: Masks | None,
    dropout: Draw | tuple[float, int],
    training: bool,
    scale: float = 1.0,
    maps: list[Tensor] | None = None,
    held: Tokens | None = None,
) -> tuple[Heads, str]:
    """y of the attention kernel that `select` chooses, and its name; `scale` is the factor of q·k.
    With `held` q, k and v are one row of these tokens, (1, H, T, D), and so are y and the kernels
    in the terms.

    The definition in plain torch serves where others cannot: to compilers, to transforms of
    torch.func, and to whoever wants `maps`, the list to which it adds the probabilities.
    """
    plain = maps is not None or torch.compiler.is_compiling() or transformed()
    kernel = eager
    if not plain:
        kernel = select(name, terms, v, training, q is not None, held is not None)
    if maps is not None:
        return eager.attention(
            q,
            k,
            v,
            terms,
            mask,
            dropout,
            scale,
            maps,
        ), name_of(eager)
    if held is not None:
        if kernel is triton:
            return triton.attention(
                q,
                k,
                v,
                terms,
                mask,
                dropout,
                scale,
                held,
            ), name_of(triton)
        query, key, q, k = mapped(held.spread_heads, terms.query, terms.key, q, k)
        terms = replace(terms, query=query, key=key)
        y, ran = attend(
            name,
            q,
            k,
            held.spread_heads(v),
            terms,
            mask,
            dropout,
            training,
            scale,
        )
        return held.take_heads(y), ran
    return kernel.attention(
        q,
        k,
        v,
        terms,
        mask,
        dropout,
        scale,
    ), name_of(kernel)


def packs(name: str, x: Tensor, n: int) -> bool:
    """Whether an attention kernel of this name can read q, k and v of sequences of n tokens at
    most, made of x, from one row."""
    return name in ("auto", name_of(triton)) and triton.packs(x, n)


def select(
    name: str,
    terms: Terms,
    v: Heads,
    training: bool,
    content: bool = True,
    packed: bool = False,
) -> ModuleType:
    """The named attention kernel, or with `auto` the first that serves these terms; `eager` for a
    named one that fails its proof.

    Args:
        v: the values that will be weighted; their device and number format matter.
        content: whether there is q·k.
        packed: whether all sequences are one row.

    Raises:
        RelposError: the named one does not serve.
    """
    for kernel in FASTEST_FIRST:
        if name not in ("auto", name_of(kernel)) or not kernel.supports(terms, v, training):
            continue
        if kernel not in OPTIONAL or proof.holds(
            kernel,
            proof.kind_of(terms, v, content, packed and kernel is triton),
        ):
            return kernel
        if name != "auto":
            return eager
    missing = compiled.missing() if name == "compiled" else None
    if name == name_of(triton) and v.device.type != "cuda":
        missing = f"needs CUDA and this is {v.device.type}"
    reason = missing or f"does not serve this position scheme on {v.device.type}"
    raise RelposError(
        f"attention kernel {name!r} {reason}; speed.kernel=auto takes one that serves"
    )

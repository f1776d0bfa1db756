"""The definition of attention with position terms, to be read against the equation. Every other
attention kernel must equal it.

s_ij = q_i·k_j + β_{j−i} + a_{i, j−i} + b_{j, i−j} + D_ij                 y_i = Σ_j drop(softmax_j(s_ij)) (v_j + u_{j−i})
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from relpos.model.dropout import Draw, drop
from relpos.model.position.base import Terms
from relpos.model.shape import Heads, Mask, scaled

Scores = Float[Tensor, "batch heads n n"]
MASKED = -1e30


def masked(dtype: torch.dtype) -> float:
    """The score of a padding token; finite, so that a row of nothing but padding has no NaN, also
    where it is added to a score."""
    return max(MASKED, torch.finfo(dtype).min / 2)


def supports(terms: Terms, v: Heads, training: bool) -> bool:
    """Everything, everywhere."""
    return True


def scores(q: Heads | None, k: Heads | None, terms: Terms, like: Heads) -> Scores:
    """s, padding and what is out of reach not yet hidden; q is scaled; q and k are None for
    attention without q·k."""
    terms, (batch, heads, n, _) = terms.multiplied(), like.shape
    s = like.new_zeros(batch, heads, n, n) if q is None or k is None else q @ k.transpose(-1, -2)
    offsets = _offsets(n, like.device)  # (n, n), j − i
    if terms.offset is not None:
        s = s + terms.offset[:, offsets + n - 1]
    if terms.query is not None:
        s = s + _read(terms.query, offsets, terms)
    if terms.key is not None:
        s = s + _read(terms.key, offsets, terms).transpose(-1, -2)  # [j, i] at i − j
    if terms.dense is not None:
        s = s + terms.dense
    return s


def probabilities(s: Scores, mask: Mask | None, reach: int | None = None) -> Scores:
    """Softmax over the real keys that are at most `reach` tokens away."""
    if mask is not None:
        s = s.masked_fill(~mask[:, None, None, :], masked(s.dtype))
    if reach is not None:
        s = s.masked_fill(_offsets(s.shape[-1], s.device).abs() > reach, -torch.inf)
    return torch.softmax(s, -1)


def attention(
    q: Heads | None, k: Heads | None, v: Heads, terms: Terms, mask: Mask | None, dropout: Draw | tuple[float, int],
    scale: float = 1.0, maps: list[Tensor] | None = None,
) -> Heads:  # fmt: skip
    """y; `scale` is the factor of q·k. The weights of the values are added to `maps`.

    Example:
        >>> v = torch.arange(3.0).view(1, 1, 3, 1)
        >>> attention(None, None, v, Terms(), None, (0.0, 0)).flatten().tolist()  # no scores: the mean of all
        [1.0, 1.0, 1.0]
        >>> beta = torch.tensor([[0.0, 0.0, 0.0, 99.0, 0.0]])  # offsets −2 … 2: the next token, where there is one
        >>> attention(None, None, v, Terms(offset=beta), None, (0.0, 0)).flatten().tolist()
        [1.0, 2.0, 1.0]
    """
    p = drop(probabilities(scores(scaled(q, scale), k, terms, v), mask, terms.reach), dropout).to(
        v.dtype
    )
    if maps is not None:
        maps.append(p)
    y = p @ v
    if terms.value is not None:
        y = y + _weighted(p, terms.value, terms.outside)
    return y


def _offsets(n: int, device: torch.device) -> Int[Tensor, "{n} {n}"]:
    token = torch.arange(n, device=device)
    return token[None, :] - token[:, None]


def _read(
    kernel: Float[Tensor, "batch heads n width"],
    offsets: Int[Tensor, "n n"],
    terms: Terms,
) -> Scores:
    """The convolution kernel of each token, read at these offsets."""
    if terms.columns is not None:
        return kernel.gather(
            -1,
            terms.columns[offsets + len(offsets) - 1].expand(*kernel.shape[:2], -1, -1),
        )
    k = kernel.shape[-1] // 2
    outside = terms.outside
    columns = (offsets.clamp(-k, k) + k).expand(*kernel.shape[:2], -1, -1)
    read = kernel.gather(-1, columns)
    return read if outside == "clamp" else read * (offsets.abs() <= k).to(kernel.dtype)


def _weighted(p: Scores, value: Float[Tensor, "width head_dim"], outside: str) -> Heads:
    """Σ_j p_ij u_{j−i}: the probabilities are first summed by offset, so that no (n, n, head_dim)
    tensor exists."""
    n, k = p.shape[-1], value.shape[0] // 2
    offsets = _offsets(n, p.device)
    if outside == "zero":
        p = p * (offsets.abs() <= k).to(p.dtype)
    columns = (offsets.clamp(-k, k) + k).expand_as(p)
    return p.new_zeros(*p.shape[:-1], 2 * k + 1).scatter_add(-1, columns, p) @ value.to(p.dtype)

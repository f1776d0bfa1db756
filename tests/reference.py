"""Every formula as plain loops over tokens i and j in float64. Shares no code with the package.

A term is a function (scheme, layer, head, i, j, q, k) → number, with q and k (n, head_dim) of one
sequence and head. Torch differentiates the loops for the gradients.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import reference_conv
import reference_input
from reference_absolute import carried, mixed, synthesizer_dense, synthesizer_random, tupe
from reference_input import Given
from reference_offsets import (
    alibi,
    dual_triangle,
    fire,
    kerple,
    kerple_power,
    polar,
    positions,
    t5,
    tisa,
    turned,
)

Term = Callable[[Any, int, int, int, int, Tensor, Tensor], Tensor | float]


def read(kernel: Tensor, offset: int, outside: str) -> Tensor:
    """Entry of a kernel over −k..k, and what it is beyond."""
    k = (len(kernel) - 1) // 2
    if offset > k:
        return kernel[2 * k] if outside == "clamp" else 0 * kernel[0]
    if offset < -k:
        return kernel[0] if outside == "clamp" else 0 * kernel[0]
    return kernel[offset + k]


def dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum()


def none(scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> float:
    return 0.0


def fixed(scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """β_{j−i}"""
    return read(scheme.beta[layer, head], j - i, scheme.outside)


def _entry(token: Tensor, table: Tensor, scaled: bool, offset: int, outside: str) -> Tensor:
    """The entry for this offset of the kernel that a token makes: its product with a column of the
    table, chosen as by `read`."""
    return dot(token, read(table.t(), offset, outside)) / (math.sqrt(len(token)) if scaled else 1.0)


def dynamic(scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """q_i · R[:, j−i] / √head_dim"""
    return _entry(q[i], scheme.query[layer], scheme.scaled, j - i, scheme.outside)


def key(scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """k_j · S[:, i−j] / √head_dim"""
    return _entry(k[j], scheme.key[layer], scheme.scaled, i - j, scheme.outside)


def composite(*arguments: Any) -> Tensor:
    return fixed(*arguments) + dynamic(*arguments)


def composite_key(*arguments: Any) -> Tensor:
    return fixed(*arguments) + dynamic(*arguments) + key(*arguments)


def huang4(scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """(q_i + k_j) · A_{j−i} / √head_dim"""
    row = scheme.table[layer, j - i + scheme.shape.max_positions - 1]
    return (dot(q[i], row) + dot(k[j], row)) / math.sqrt(len(row))


def swin(scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """β_{j−i}"""
    return scheme.beta[layer, head, j - i + scheme.shape.max_positions - 1]


def xl(scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """(q_i + v) · W_R r_{i−j} / √head_dim"""
    width, d_h = scheme.shape.hidden, len(q[i])
    half = width - width // 2
    angles = [(i - j) / 10000 ** (2 * c / width) for c in range(half)]
    waves = [*map(math.sin, angles), *map(math.cos, angles[: width - half])]
    r = torch.tensor(waves, dtype=torch.float64)
    rows = scheme.weight[layer, head * d_h : (head + 1) * d_h]
    return sum(
        (q[i][c] + scheme.v[layer, head, c]) * dot(rows[c], r) for c in range(d_h)
    ) / math.sqrt(d_h)


def biased(
    scheme: Any, layer: int, head: int, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """q + u"""
    return torch.stack([row + scheme.u[layer, head] for row in q]), k, v


TERMS: dict[str, Term] = {
    "NoPosition": none,
    "Absolute": none,
    "Sinusoidal": none,
    "Fixed": fixed,
    "Dynamic": dynamic,
    "Key": key,
    "Composite": composite,
    "CompositeKey": composite_key,
    "Huang4": huang4,
    "Tupe": tupe,
    "Floater": none,
    "SynthesizerRandom": synthesizer_random,
    "SynthesizerDense": synthesizer_dense,
    "T5": t5,
    "Tisa": tisa,
    "Alibi": alibi,
    "Kerple": kerple,
    "KerplePower": kerple_power,
    "Pope": none,
    "Rope": none,
    "SelectiveRope": none,
    "Swin": swin,
    "Window": none,
    "XL": xl,
    "DualTriangle": dual_triangle,
    "Fire": fire,
}
SEEING = {
    "Cope": reference_input.cope,
    "Deberta": reference_input.deberta,
    "Fox": reference_input.fox,
    "Inkling": reference_input.inkling,
}

Turn = Callable[..., Any]  # (scheme, layer, head, q, k, v) of one sequence and head → q, k, v
TURNS: dict[str, Turn] = {
    "Floater": carried,
    "SynthesizerRandom": mixed,
    "SynthesizerDense": mixed,
    "Pope": polar,
    "Rope": turned,
    "XL": biased,
}
SEEING_TURNS = {"SelectiveRope": reference_input.selective_rope}


def parts_at(scheme: Any, layer: int) -> list[tuple[Any, int]]:
    """The schemes that act in a layer, each with the number of this layer among its own."""
    name = type(scheme).__name__
    if name in ("Merge", "Randomized"):
        return [pair for part in scheme.parts for pair in parts_at(part, layer)]
    if name == "Layers":
        turn = own = 0
        for _ in range(layer):  # one layer after the other, as they take their turns
            turn, own = (
                (turn + 1, own)
                if turn + 1 < scheme.period
                else (0, own + 1)
                if scheme.cycle
                else (turn, own + 1)
            )
        return parts_at(scheme.parts[turn], own)
    return [(scheme, layer)]


def drawn_offset(part: Any, head: int, i: int, j: int, q: Any, k: Any) -> tuple[Any, ...]:
    """The pair with the offset that stands for j − i where offsets are drawn, which are taken from
    the scheme."""
    return head, i, i + int(part.offsets(len(q), torch.device("cpu"))[j - i + len(q) - 1]), q, k


def term(given: Given, scheme: Any, layer: int, *pair: Any) -> Any:
    """T_ij, Σ of the schemes that act in a layer."""
    total = 0.0
    for part, own in parts_at(scheme, layer):
        name = type(part).__name__
        places = drawn_offset(part, *pair) if part.asks == "offsets" else pair
        total = total + (
            SEEING[name](given, part, own, *places)
            if name in SEEING
            else TERMS[name](part, own, *places)
        )
    return total


def turn(given: Given, scheme: Any, layer: int, head: int, *projected: Any) -> Any:
    """q, k, v turned by one scheme after the other."""
    for part, own in parts_at(scheme, layer):
        name = type(part).__name__
        if name in SEEING_TURNS:
            projected = SEEING_TURNS[name](given, part, own, head, *projected)
        elif name in TURNS:
            projected = TURNS[name](part, own, head, *projected)
    return projected


def halved(scheme: Any, layer: int) -> bool:
    """Whether each head's first half of channels sees the left side and the second half the right
    one."""
    return any(getattr(part, "splits", False) for part, _ in parts_at(scheme, layer))


def valued(scheme: Any, layer: int, offset: int) -> Any:
    """u_{j−i}: what is added to the values."""
    total = 0.0
    for part, own in parts_at(scheme, layer):
        if (table := getattr(part, "value", None)) is not None:
            columns = range(table.shape[2])
            total = total + torch.stack(
                [read(table[own, :, c], offset, part.outside) for c in columns]
            )
    return total


def reach(scheme: Any, layer: int) -> float:
    """How far a token sees to each side."""
    return min(
        (part.reach for part, _ in parts_at(scheme, layer) if hasattr(part, "reach")),
        default=math.inf,
    )


def scale(scheme: Any) -> float | None:
    """The factor of q·k; None where there is no q·k."""
    scheme, _ = parts_at(scheme, 0)[0]
    name, width = type(scheme).__name__, scheme.shape.head_dim
    if name.startswith("Synthesizer"):
        return 1.0 if scheme.mixture else None
    if name == "Inkling":
        return 1 / math.sqrt(width) if scheme.root else 1 / width
    return 1 / math.sqrt({"Tupe": 2, "Deberta": 3}.get(name, 1) * width)


def needed(scheme: Any) -> str:
    """Which of q, k, v the attention has linear maps for, in their order."""
    name = type(scheme).__name__
    if name in ("Merge", "Layers", "Randomized"):
        return "".join(
            letter for letter in "qkv" if any(letter in needed(part) for part in scheme.parts)
        )
    if name.startswith("Synthesizer") and not scheme.mixture:
        return "v" if name == "SynthesizerRandom" else "qv"
    return "qkv"


def sinusoid(position: int, channel: int, width: int) -> float:
    angle = position / 10000 ** (2 * (channel // 2) / width)
    return math.sin(angle) if channel % 2 == 0 else math.cos(angle)


def embedded(scheme: Any, n: int, width: int) -> Tensor | None:
    """(n, embedding) added to the words."""
    if type(scheme).__name__ in ("Merge", "Layers", "Randomized"):
        tables = [rows for part in scheme.parts if (rows := embedded(part, n, width)) is not None]
        return torch.stack(tables).sum(0) if tables else None
    if type(scheme).__name__ == "Absolute":
        return torch.stack([scheme.table[position] for position in positions(scheme, n)])
    if type(scheme).__name__ in ("Sinusoidal", "Floater"):
        rows = [
            [sinusoid(p, c, width) / math.sqrt(width) for c in range(width)]
            for p in positions(scheme, n)
        ]
        return torch.tensor(rows, dtype=torch.float64)
    return None


def attend(
    q: Any,
    k: Any,
    v: Tensor,
    add: Callable[[int, int], Any],
    scale: float | None,
    real: list[bool],
    value: Any = None,
    far: float = math.inf,
    causal: bool = False,
) -> Tensor:
    """One sequence and head: q, k, v (n, d_h) → y (n, d_h). `add(i, j)` is T_ij, `value(offset)`
    the row added to v_j. Without a scale there is no q·k. A token sees real tokens that are at most
    `far` away, and if causal none behind it; padding, which may see none, sees itself."""
    rows = []
    for i in range(len(v)):
        keys = [
            j for j in range(len(v)) if real[j] and abs(j - i) <= far and not (causal and j > i)
        ] or [i]
        scores = [add(i, j) for j in keys]
        if scale is not None:
            scores = [dot(q[i], k[j]) * scale + t for j, t in zip(keys, scores, strict=True)]
        top = max(float(score.detach()) for score in scores)
        if top == -math.inf:  # the scheme hides all that there is: a token of padding
            rows.append(v[i])
            continue
        powers = [torch.exp(score - top) for score in scores]
        y = torch.zeros(v.shape[1], dtype=v.dtype)
        for j, power in zip(keys, powers, strict=True):
            y = y + power / sum(powers) * (v[j] if value is None else v[j] + value(j - i))
        rows.append(y)
    return torch.stack(rows)


def one_sided(side: int) -> Callable[[int, int], float]:
    """0 at the token itself and on one side of it, −∞ on the other."""
    return lambda i, j: 0.0 if (j - i) * side >= 0 else -math.inf


def linear(x: Tensor, part: Any) -> Tensor:
    return part.weight @ x + (0 if part.bias is None else part.bias)


def norm(x: Tensor, part: Any) -> Tensor:
    if isinstance(part, torch.nn.Identity):
        return x
    if isinstance(part, torch.nn.RMSNorm):
        return part.weight * x / torch.sqrt((x**2).sum() / len(x) + part.eps)
    mean = x.sum() / len(x)
    variance = ((x - mean) ** 2).sum() / len(x)
    return (x - mean) / torch.sqrt(variance + part.eps) * part.weight + (
        0 if part.bias is None else part.bias
    )


def gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def encode(encoder: Any, ids: list[int], real: list[bool], types: list[int]) -> Tensor:
    """One sequence (n,) → (n, hidden): BERT without dropout, with the choices of its block."""
    n, embedding = len(ids), encoder.embedding
    positions = embedded(encoder.position, n, encoder.shape.embedding)
    x = []
    for i in range(n):
        token = embedding.words.weight[ids[i]] + embedding.types.weight[types[i]]
        token = norm(token if positions is None else token + positions[i], embedding.norm)
        x.append(linear(token, embedding.widen) if hasattr(embedding.widen, "weight") else token)
    for number in range(encoder.shape.layers):
        x = _layer(encoder, encoder.layers[number % len(encoder.layers)], number, x, real)
    return torch.stack([norm(token, encoder.norm) for token in x])


def _projected(encoder: Any, layer: Any, x: list[Tensor], real: list[bool]) -> dict[str, Tensor]:
    """q, k (n, scored heads · d_h), v (n, heads · d_h): by the convolution or else by the one
    matrix, where they are needed."""
    conv, heads, width = layer.attention.conv, encoder.shape.heads, encoder.shape.head_dim
    scored = reference_conv.scored(conv, heads)
    qkv = {
        name: torch.stack(rows) for name, rows in reference_conv.projections(conv, x, real).items()
    }
    start = 0
    for name in needed(encoder.position):
        size = (heads if name == "v" else scored) * width
        if name not in qkv and size:
            rows = [linear(token, layer.attention.project)[start : start + size] for token in x]
            qkv[name], start = torch.stack(rows), start + size
    qkv = {
        name: torch.stack(reference_conv.acted(conv, name, list(rows), x, real))
        for name, rows in qkv.items()
    }
    for name, part in layer.attention.norms.items():
        rows = [[norm(head, part) for head in row.split(width)] for row in qkv[name]]
        qkv[name] = torch.stack([torch.cat(row) for row in rows])
    return qkv


def _context(encoder: Any, layer: Any, number: int, x: list[Tensor], real: list[bool]) -> Tensor:
    """(n, heads · d_h): what goes into W_o."""
    scheme, conv, heads, width = (
        encoder.position,
        layer.attention.conv,
        encoder.shape.heads,
        encoder.shape.head_dim,
    )
    given, projected = Given(layer.attention, x, real), _projected(encoder, layer, x, real)
    scored, parts = reference_conv.scored(conv, heads), []
    for head in range(scored):
        own = slice(head * width, (head + 1) * width)
        q, k, v = map({name: rows[:, own] for name, rows in projected.items()}.get, "qkv")

        def add(i: int, j: int, head: int = head, q: Any = q, k: Any = k) -> Any:
            return term(given, scheme, number, head, i, j, q, k)

        q, k, v = turn(given, scheme, number, head, q, k, v)
        seen = reach(scheme, number), encoder.causal
        if halved(scheme, number):
            for side, half in ((-1, slice(0, width // 2)), (1, slice(width // 2, width))):
                shares = scale(scheme) * math.sqrt(2), real
                parts.append(
                    attend(
                        q[:, half], k[:, half], v[:, half], one_sided(side), *shares, None, *seen
                    )
                )
            continue
        parts.append(
            attend(
                q,
                k,
                v,
                add,
                scale(scheme),
                real,
                lambda offset: valued(scheme, number, offset),
                *seen,
            )
        )
    values = projected["v"].split(width, 1)[scored:]
    parts += reference_conv.unscored(conv, x, projected.get("q"), values, real) if values else []
    after = reference_conv.after(conv, list(projected["v"]), real)
    return torch.cat(parts, 1) + (0 if after is None else torch.stack(after))


def _layer(
    encoder: Any, layer: Any, number: int, x: list[Tensor], real: list[bool]
) -> list[Tensor]:
    conv, before = layer.attention.conv, layer.block.norm_first
    first = [norm(token, layer.attention_norm) for token in x] if before else x
    context = _context(
        encoder, layer, number, reference_conv.acted(conv, "input", first, first, real), real
    )
    middle = [
        token + linear(y, layer.attention.output) for token, y in zip(x, context, strict=True)
    ]
    second = layer.ffn_norm if before else layer.attention_norm
    between = [norm(token, second) for token in middle]
    read = reference_conv.acted(conv, "ffn", between, between, real)
    inner = reference_conv.acted(
        conv, "inner", [linear(token, layer.widen) for token in read], read, real
    )
    outer = [linear(activated(y, layer.block), layer.narrow) for y in inner]
    if before:
        return [token + y for token, y in zip(middle, outer, strict=True)]
    return [norm(token + y, layer.ffn_norm) for token, y in zip(between, outer, strict=True)]


def act(x: Tensor, block: Any) -> Tensor:
    return x * torch.sigmoid(x) if block.activation == "silu" else gelu(x)


def activated(inner: Tensor, block: Any) -> Tensor:
    """The vector between the two maps of the feed-forward network."""
    active = act(inner, block)
    half = len(inner) // 2
    return torch.stack([active[c] * inner[half + c] for c in range(half)]) if block.glu else active


def logits(model: Any, hidden: Tensor) -> Tensor:
    """(hidden,) → (vocabulary,): the tied head."""
    words = model.encoder.embedding.words.weight
    x = norm(act(linear(hidden, model.head.narrow), model.encoder.block), model.head.norm)
    return torch.stack(
        [dot(x, words[token]) + model.head.bias[token] for token in range(len(words))]
    )

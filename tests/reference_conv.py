"""Every convolution as plain loops over tokens and channels in float64. Shares no code with the
package.

x, v (n, channels) are lists of tokens of one sequence; `real` says which tokens are not padding.
Gradients come from torch differentiating the loops.
"""

import math
from typing import Any

import torch
from torch import Tensor


def named(conv: Any) -> str:
    return type(conv).__name__


def parts_of(conv: Any) -> list[Any]:
    """What a merge is made of, or the convolution itself."""
    return (
        [inner for part in conv.parts for inner in parts_of(part)]
        if named(conv) == "MergedConvs"
        else [conv]
    )


def linear(x: Tensor, part: Any) -> Tensor:
    return part.weight @ x + part.bias


def convolve(x: Any, weight: Tensor, bias: Any, real: list[bool]) -> list[Tensor]:
    """y_{i,c} = Σ_r w_{c,r} x_{i+r,c} + bias_c; weight (channels, 2k+1), its last entry the token k
    places ahead."""
    n, channels, k = len(x), len(weight), weight.shape[1] // 2
    result = []
    for i in range(n):
        y = []
        for c in range(channels):
            total = torch.zeros((), dtype=torch.float64)
            for r in range(-k, k + 1):
                if 0 <= i + r < n and real[i + r]:
                    total = total + weight[c, r + k] * x[i + r][c]
            y.append(total if bias is None else total + bias[c])
        result.append(torch.stack(y))
    return result


def gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def separable(x: Any, part: Any, real: list[bool]) -> list[Tensor]:
    middle = convolve(x, part.depthwise.weight, part.depthwise.bias, real)
    if type(part.activation).__name__ == "GELU":
        middle = [gelu(token) for token in middle]
    return [linear(token, part.pointwise) for token in middle]


def softmax(x: list[Tensor]) -> list[Tensor]:
    top = max(float(value.detach()) for value in x)
    powers = [torch.exp(value - top) for value in x]
    return [power / sum(powers) for power in powers]


def scored(conv: Any, heads: int) -> int:
    """How many heads have scores."""
    numbers = {"ConvBert": heads // 2, "LightConv": 0, "DynamicConv": 0}
    return min(numbers.get(named(part), heads) for part in parts_of(conv))


def projections(conv: Any, x: list[Tensor], real: list[bool]) -> dict[str, list[Tensor]]:
    """The projections that a convolution makes: name → (n, width)."""
    result: dict[str, list[Tensor]] = {}
    for part in parts_of(conv):
        result |= PROJECTIONS.get(named(part), lambda *_: {})(part, x, real)
    return result


def convolved(part: Any, x: list[Tensor], real: list[bool]) -> dict[str, list[Tensor]]:
    names = {"ConvQK": "qk", "ConvValue": "v", "ConvQKV": "qkv"}[named(part)]
    result = {}
    for number, name in enumerate(names):
        rows = separable(x, part.convolutions[name], real)
        if part.linear is not None:
            width = part.linear.weight.shape[0] // len(names)
            own = slice(number * width, (number + 1) * width)
            rows = [
                torch.cat((row, linear(token, part.linear)[own]))
                for row, token in zip(rows, x, strict=True)
            ]
        result[name] = rows
    return result


def gated(part: Any, x: list[Tensor], real: list[bool]) -> dict[str, list[Tensor]]:
    rows = []
    for i, token in enumerate(x):
        both = linear(token, part.gated)
        half = len(both) // 2
        y = both[:half] / (1 + torch.exp(-both[half:]))
        rows.append(y if real[i] else 0 * y)
    return {"v": rows}


PROJECTIONS = {
    "ConvQK": convolved, "ConvValue": convolved, "ConvQKV": convolved, "LightConv": gated, "DynamicConv": gated,
}  # fmt: skip


def unscored(conv: Any, x: list[Tensor], q: Any, v: list[Tensor], real: list[bool]) -> list[Tensor]:
    """The heads without scores: v (heads, n, head_dim) → the same; q (n, width of all scored
    heads)."""
    part = next(part for part in parts_of(conv) if named(part) in HEADS)
    return [
        torch.stack(HEADS[named(part)](part, head, x, q, values, v, real))
        for head, values in enumerate(v)
    ]


def window_sum(weights: dict[int, Tensor], values: Tensor) -> Tensor:
    """Σ_j w_j v_j"""
    y = torch.zeros(values.shape[1], dtype=torch.float64)
    for j, weight in weights.items():
        y = y + weight * values[j]
    return y


def convbert(
    part: Any, head: int, x: Any, q: Any, values: Tensor, v: Any, real: list[bool]
) -> list[Tensor]:
    n, k, width = len(x), part.width // 2, part.width
    keys = separable(x, part.key, real)
    kernels = [
        linear(keys[i] * q[i], part.kernel)[head * width : (head + 1) * width] for i in range(n)
    ]
    result = []
    for i in range(n):
        near = [j for j in range(i - k, i + k + 1) if 0 <= j < n and real[j]]
        rows = [kernels[i]] * n if part.kernel_from == "query" else kernels
        if part.edges == "renormalise":
            weights = softmax([rows[j][j - i + k] for j in near]) if near else []
        else:
            weights = [softmax(list(rows[j]))[j - i + k] for j in near]
        result.append(window_sum(dict(zip(near, weights, strict=True)), values))
    return result


def lightconv(
    part: Any, head: int, x: Any, q: Any, values: Tensor, v: Any, real: list[bool]
) -> list[Tensor]:
    weights = softmax(list(part.weight[head, 0]))
    n, k = len(x), len(weights) // 2
    return [
        window_sum({j: weights[j - i + k] for j in range(i - k, i + k + 1) if 0 <= j < n}, values)
        for i in range(n)
    ]


def dynamicconv(
    part: Any, head: int, x: Any, q: Any, values: Tensor, v: Any, real: list[bool]
) -> list[Tensor]:
    n, width = len(x), part.kernel.weight.shape[0] // len(v)
    result = []
    for i in range(n):
        whole = torch.cat([other[i] for other in v])
        weights = softmax(list((part.kernel.weight @ whole)[head * width : (head + 1) * width]))
        near = range(i - width // 2, i + width // 2 + 1)
        result.append(
            window_sum({j: weights[j - i + width // 2] for j in near if 0 <= j < n}, values)
        )
    return result


HEADS = {"ConvBert": convbert, "LightConv": lightconv, "DynamicConv": dynamicconv}


def values_convolved(part: Any, v: list[Tensor], real: list[bool]) -> list[Tensor]:
    return convolve(v, part.values.weight, part.values.bias, real)


AFTER = {"Depthwise": values_convolved}


def beside(
    part: Any, place: str, y: list[Tensor], x: list[Tensor], real: list[bool]
) -> list[Tensor]:
    """y_i + Σ_r w_r ⊙ y_{i+r}, r up to k, or up to 0 where the right side is not read"""
    weight = part.convolutions[place].weight
    if not part.right:
        weight = torch.cat((weight, weight.new_zeros(len(weight), weight.shape[1] - 1)), 1)
    return [token + added for token, added in zip(y, convolve(y, weight, None, real), strict=True)]


def shifted(
    part: Any, place: str, y: list[Tensor], x: list[Tensor], real: list[bool]
) -> list[Tensor]:
    """α_i y_{i−1} + γ_i y_{i+1} + (1 − α_i − γ_i) y_i in each head"""
    gates, heads = part.gates[place].weight, part.shape.heads
    width, sides = len(y[0]) // heads, [-1, 1] if part.right else [-1]
    result = []
    for i in range(len(y)):
        rows = []
        for head in range(heads):
            own = slice(head * width, (head + 1) * width)
            powers = [
                torch.exp((gates[head * len(sides) + number] * x[i]).sum())
                for number in range(len(sides))
            ]
            row = y[i][own] / (1 + sum(powers))
            for side, power in zip(sides, powers, strict=True):
                if 0 <= i + side < len(y) and real[i + side]:
                    row = row + power / (1 + sum(powers)) * y[i + side][own]
            rows.append(row)
        result.append(torch.cat(rows))
    return result


ACTS = {"Canon": beside, "InklingConv": beside, "KvShift": shifted}


def acts_at(part: Any, place: str) -> bool:
    if named(part) == "Canon":
        return place in part.convolutions
    return named(part) in ("InklingConv", "KvShift") and place in ("k", "v")


def acted(
    conv: Any, place: str, y: list[Tensor], x: list[Tensor], real: list[bool]
) -> list[Tensor]:
    """The vectors at a place of the layer, after the convolutions that act there."""
    for part in parts_of(conv):
        if acts_at(part, place):
            y = ACTS[named(part)](part, place, y, x, real)
    return y


def after(conv: Any, v: list[Tensor], real: list[bool]) -> list[Tensor] | None:
    """What is added to the outputs of all heads together: v (n, heads · head_dim) → the same, or
    None."""
    added = [AFTER[named(part)](part, v, real) for part in parts_of(conv) if named(part) in AFTER]
    return [sum(rows[1:], rows[0]) for rows in zip(*added, strict=True)] or None

"""All of `kernels/`: every attention kernel equals the definition, for any terms that a scheme may
come up with."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import reference
from relpos.errors import RelposError
from relpos.model import kernels
from relpos.model.dropout import Draw, dropped, rescale
from relpos.model.kernels import eager, fused
from relpos.model.position import Fixed, Terms
from schemes import SIZE, VOCABULARY, build

B, H, N, D, K = 2, 3, 9, 4, 2
CPU = torch.device("cpu")
SHAPES: dict[str, tuple[int, ...]] = {
    "offset": (H, 2 * N - 1), "query": (B, H, N, 2 * K + 1), "key": (B, H, N, 2 * K + 1),
    "dense": (1, H, N, N), "value": (2 * K + 1, D),
}  # fmt: skip
COMBINATIONS: list[tuple[str, ...]] = [
    (),
    ("offset",),
    ("query",),
    ("key",),
    ("dense",),
    ("offset", "query", "key", "dense"),
]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64
    )


def inputs(names: tuple[str, ...]) -> dict[str, Tensor]:
    wanted = {
        "q": (B, H, N, D),
        "k": (B, H, N, D),
        "v": (B, H, N, D),
        **{name: SHAPES[name] for name in names},
    }
    return {
        name: numbers(*shape, seed=i).requires_grad_()
        for i, (name, shape) in enumerate(wanted.items())
    }


def mask() -> Tensor:
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, -3:] = False
    return real


# Offsets −8 … 8 → columns of query and key; not one to one, and neither symmetric nor rising.
COLUMNS = torch.tensor([4, 4, 4, 0, 1, 1, 2, 0, 3, 3, 1, 2, 4, 4, 0, 0, 0])
SEEN: list[dict[str, Any]] = [
    {"columns": COLUMNS},
    {"reach": 0},
    {"reach": 3},
    {"columns": COLUMNS, "reach": 2},
]


def run(
    kernel: Any,
    names: tuple[str, ...],
    outside: str,
    dropout: tuple[float, int],
    real: Tensor | None,
    **seen: Any,
) -> list[Tensor]:
    """Output and gradients."""
    x = inputs(names)
    terms = Terms(**{name: x[name] for name in names}, outside=outside, **seen)
    y = kernel.attention(x["q"], x["k"], x["v"], terms, real, dropout)
    # what a token gets that sees nothing but padding means nothing
    if seen.get("reach") is not None and real is not None:
        y = y * real[:, None, :, None]
    (y * numbers(B, H, N, D, seed=9)).sum().backward()
    return [y.detach(), *(value.grad for value in x.values())]


@pytest.mark.parametrize("outside", ["clamp", "zero"])
@pytest.mark.parametrize("names", [*COMBINATIONS, ("value",)], ids="+".join)
def test_eager_equals_the_loops(names, outside):
    x, real = inputs(names), mask()
    terms = Terms(**{name: x[name] for name in names}, outside=outside)
    y = eager.attention(x["q"], x["k"], x["v"], terms, real, (0.0, 0))

    for b in range(B):
        for h in range(H):

            def add(i: int, j: int, b: int = b, h: int = h) -> Any:
                total: Any = 0.0
                if terms.offset is not None:
                    total = total + terms.offset[h, j - i + N - 1]
                if terms.query is not None:
                    total = total + reference.read(terms.query[b, h, i], j - i, outside)
                if terms.key is not None:
                    total = total + reference.read(terms.key[b, h, j], i - j, outside)
                if terms.dense is not None:
                    total = total + terms.dense[0, h, i, j]
                return total

            def value(offset: int) -> Any:
                return torch.stack(
                    [reference.read(column, offset, outside) for column in x["value"].unbind(1)]
                )

            expected = reference.attend(
                x["q"][b, h],
                x["k"][b, h],
                x["v"][b, h],
                add,
                1.0,
                real[b].tolist(),
                value if "value" in names else None,
            )
            torch.testing.assert_close(y[b, h], expected, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("seen", SEEN, ids=str)
@pytest.mark.parametrize(
    "names", [(), ("query", "key"), ("offset", "query", "value")], ids="+".join
)
def test_columns_and_reach_of_eager_equal_the_loops(names, seen):
    x, real = inputs(names), mask()
    y = eager.attention(
        x["q"], x["k"], x["v"], Terms(**{name: x[name] for name in names}, **seen), real, (0.0, 0)
    )
    columns, reach = seen.get("columns"), seen.get("reach", N)

    for b, h in product(range(B), range(H)):

        def read(row: Tensor, offset: int) -> Tensor:
            return (
                reference.read(row, offset, "clamp")
                if columns is None
                else row[columns[offset + N - 1]]
            )

        for i in range(N):
            keys = [j for j in range(N) if abs(j - i) <= reach and real[b, j]]
            if not keys:
                continue
            scores = []
            for j in keys:
                s = x["q"][b, h, i] @ x["k"][b, h, j]
                s = s + (x["offset"][h, j - i + N - 1] if "offset" in names else 0)
                s = s + (read(x["query"][b, h, i], j - i) if "query" in names else 0)
                s = s + (read(x["key"][b, h, j], i - j) if "key" in names else 0)
                scores.append(s)
            u = [
                reference.read(x["value"], j - i, "clamp") if "value" in names else 0 for j in keys
            ]
            p = torch.softmax(torch.stack(scores), 0)
            expected = sum(
                weight * (x["v"][b, h, j] + row) for weight, j, row in zip(p, keys, u, strict=True)
            )
            torch.testing.assert_close(y[b, h, i], expected, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("dropout", [(0.0, 0), (0.3, 12345)], ids=["kept", "dropped"])
@pytest.mark.parametrize("seen", SEEN, ids=str)
@pytest.mark.parametrize("names", COMBINATIONS, ids="+".join)
def test_columns_and_reach_of_fused_equal_eager(names, seen, dropout):
    found, expected = (
        run(kernel, names, "clamp", dropout, mask(), **seen) for kernel in (fused, eager)
    )
    torch.testing.assert_close(found, expected, atol=1e-11, rtol=1e-9)


def test_kernels_with_columns_are_added_by_offset():
    """A map meets a window, and another map; the shorter reach holds."""
    x = inputs(("query", "key"))
    mapped, window = (
        Terms(query=x["query"], columns=COLUMNS, reach=5),
        Terms(query=x["query"], key=x["key"], outside="zero", reach=3),
    )
    added = [eager.scores(None, None, terms, x["v"]) for terms in (mapped, window)]
    for total in (mapped + window, window + mapped):
        assert total.reach == 3
        torch.testing.assert_close(eager.scores(None, None, total, x["v"]), sum(added))
    assert (mapped + Terms()).reach == 5
    torch.testing.assert_close(eager.scores(None, None, mapped + mapped, x["v"]), 2 * added[0])


def test_fused_leaves_kernels_of_a_wider_format_to_others():
    """Gates are summed along the sentence; of two large sums in bfloat16 little of the difference
    would be left."""
    v = numbers(*SHAPES["query"][:3], D).bfloat16()
    assert not fused.supports(Terms(query=numbers(*SHAPES["query"]).float()), v, True)
    assert fused.supports(Terms(query=numbers(*SHAPES["query"]).bfloat16()), v, True)
    assert fused.supports(Terms(offset=numbers(*SHAPES["offset"]).float()), v, True)


@pytest.mark.parametrize("dropout", [(0.0, 0), (0.3, 12345)], ids=["kept", "dropped"])
@pytest.mark.parametrize("padded", [True, False], ids=["padded", "full"])
@pytest.mark.parametrize("outside", ["clamp", "zero"])
@pytest.mark.parametrize("names", COMBINATIONS, ids="+".join)
def test_fused_equals_eager(names, outside, padded, dropout):
    real = mask() if padded else None
    found, expected = (run(kernel, names, outside, dropout, real) for kernel in (fused, eager))
    torch.testing.assert_close(found, expected, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("width", [1, 3, 7, 9, 11, 17, 19])
def test_fused_equals_eager_for_other_widths(width):
    for name, outside in product(("query", "key"), ("clamp", "zero")):
        results = []
        for kernel in (fused, eager):
            table = numbers(B, H, N, width).requires_grad_()
            q, k, v = (numbers(B, H, N, D, seed=s) for s in range(3))
            y = kernel.attention(q, k, v, Terms(**{name: table}, outside=outside), None, (0.0, 0))
            y.square().sum().backward()
            results.append((y.detach(), table.grad))
        torch.testing.assert_close(*results)


@pytest.mark.parametrize("kernel", [eager, fused])
def test_kernels_of_a_sequence_of_padding_alone_give_no_nan(kernel):
    q = numbers(B, H, N, D)
    assert (
        kernel.attention(q, q, q, Terms(), torch.zeros(B, N, dtype=torch.bool), (0.0, 0))
        .isfinite()
        .all()
    )


@pytest.mark.parametrize("kernel", [eager, fused])
def test_zero_terms_equal_no_terms_exactly(kernel):
    q, k, v = (numbers(B, H, N, D, seed=s) for s in range(3))
    names = ("offset", "query", "key", "dense")
    silent = Terms(**{name: torch.zeros(SHAPES[name], dtype=torch.float64) for name in names})
    assert torch.equal(
        kernel.attention(q, k, v, silent, mask(), (0.0, 0)),
        kernel.attention(q, k, v, Terms(), mask(), (0.0, 0)),
    )


@pytest.mark.parametrize("kernel", [eager, fused])
@pytest.mark.parametrize(("name", "neighbour"), [("offset", 1), ("query", 1), ("key", -1)])
def test_a_one_hot_kernel_at_plus_one(kernel, name, neighbour):
    """β, a: each token attends to its right neighbour; b: each is attended to by its right
    neighbour."""
    one_hot = torch.zeros(SHAPES[name], dtype=torch.float64)
    one_hot[..., one_hot.shape[-1] // 2 + 1] = 100.0
    v = numbers(B, H, N, D)
    y = kernel.attention(0 * v, 0 * v, v, Terms(**{name: one_hot}, outside="zero"), None, (0.0, 0))
    inner = slice(1, N - 1)
    torch.testing.assert_close(y[:, :, inner], v.roll(-neighbour, 2)[:, :, inner])


def test_without_content_the_terms_are_the_scores():
    dense, v = numbers(*SHAPES["dense"]), numbers(B, H, N, D)
    expected = torch.softmax(dense, -1) @ v
    for kernel in (eager, fused):
        torch.testing.assert_close(
            kernel.attention(None, None, v, Terms(dense=dense), None, (0.0, 0)), expected
        )


def test_dropped_probabilities_are_those_of_the_mask():
    v = torch.eye(N, dtype=torch.float64).expand(1, 1, N, N)
    keep = dropped((1, 1, N, N), Draw(0.4, 77), CPU) >= 0
    for kernel in (eager, fused):
        y = kernel.attention(0 * v, 0 * v, v, Terms(), None, (0.4, 77))
        torch.testing.assert_close(y, keep.double() * rescale(0.4) / N)


def test_auto_takes_the_first_that_serves():
    assert kernels.select("auto", Terms(), numbers(B, H, N, D), True) is fused
    assert kernels.select("auto", Terms(value=numbers(5, D)), numbers(B, H, N, D), True) is eager
    assert kernels.select("eager", Terms(), numbers(B, H, N, D), True) is eager


def test_a_kernel_that_does_not_serve_is_refused_by_name():
    with pytest.raises(RelposError, match="kernel 'fused' does not serve"):
        kernels.select("fused", Terms(value=numbers(5, D)), numbers(B, H, N, D), True)


def test_an_unknown_kernel_is_refused_when_the_model_is_made():
    with pytest.raises(
        RelposError,
        match=r"kernel=fuzed: auto, triton, compiled, fused or eager is expected\. Did you mean 'fused'",
    ):
        build(SIZE, Fixed, VOCABULARY, kernel="fuzed")

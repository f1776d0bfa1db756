"""All of `kernels/`: every attention kernel equals the definition, for any terms that a scheme may
come up with."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model.attention_loops import looped
from relpos.errors import RelposError
from relpos.model import kernels
from relpos.model.dropout import Draw, dropped, rescale
from relpos.model.kernels import eager, fused
from relpos.model.position import Fixed, Terms
from schemes import SIZE, VOCABULARY, build, near, numbers

B, H, N, D, K = 2, 3, 9, 4, 2
EITHER = pytest.mark.parametrize("kernel", [eager, fused])
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


def inputs(names: tuple[str, ...]) -> dict[str, Tensor]:
    wanted = dict.fromkeys("qkv", (B, H, N, D)) | {name: SHAPES[name] for name in names}
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
OUTSIDE: list[dict[str, Any]] = [{"outside": "clamp"}, {"outside": "zero"}]
SEEN: list[dict[str, Any]] = [
    {"columns": COLUMNS},
    {"reach": 0},
    {"reach": 3},
    {"columns": COLUMNS, "reach": 2},
]
KEPT, DROPPED = (0.0, 0), (0.3, 12345)


def attended(
    kernel: Any,
    q: Tensor | None,
    k: Tensor | None,
    v: Tensor,
    real: Tensor | None = None,
    dropout: tuple[float, int] = KEPT,
    **terms: Any,
) -> Tensor:
    return kernel.attention(q, k, v, Terms(**terms), real, dropout)


@pytest.mark.parametrize(
    ("names", "seen"),
    [
        *product([*COMBINATIONS, ("value",)], OUTSIDE),
        *product([(), ("query", "key"), ("offset", "query", "value")], SEEN),
    ],
    ids=str,
)
def test_eager_equals_the_loops(names, seen):
    x, real = inputs(names), mask()
    expected = looped(x, real, **seen)
    finite = expected.isfinite()  # other queries see nothing but padding
    near(attended(eager, **x, real=real, **seen)[finite], expected[finite])


def run(kernel: Any, names: tuple[str, ...], real: Tensor | None, **how: Any) -> list[Tensor]:
    """Output and gradients."""
    x = inputs(names)
    y = attended(kernel, **x, real=real, **how)
    # what a token gets that sees nothing but padding means nothing
    if "reach" in how and real is not None:
        y = y * real[:, None, :, None]
    (y * numbers(B, H, N, D, seed=9)).sum().backward()
    return [y.detach(), *(value.grad for value in x.values())]


@pytest.mark.parametrize("dropout", [KEPT, DROPPED], ids=["kept", "dropped"])
@pytest.mark.parametrize(
    ("seen", "real"),
    [*product(OUTSIDE, (mask(), None)), *((seen, mask()) for seen in SEEN)],
    ids=lambda value: "padded" if isinstance(value, Tensor) else str(value),
)
@pytest.mark.parametrize("names", COMBINATIONS, ids="+".join)
def test_fused_equals_eager(names, seen, real, dropout):
    near(*(run(kernel, names, real, dropout=dropout, **seen) for kernel in (fused, eager)))


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
        assert_close(eager.scores(None, None, total, x["v"]), sum(added))
    assert (mapped + Terms()).reach == 5
    assert_close(eager.scores(None, None, mapped + mapped, x["v"]), 2 * added[0])


def test_fused_leaves_kernels_of_a_wider_format_to_others():
    """Gates are summed along the sentence; of two large sums in bfloat16 little of the difference
    would be left."""
    v = numbers(*SHAPES["query"][:3], D).bfloat16()
    assert not fused.supports(Terms(query=numbers(*SHAPES["query"]).float()), v, True)
    assert fused.supports(Terms(query=numbers(*SHAPES["query"]).bfloat16()), v, True)
    assert fused.supports(Terms(offset=numbers(*SHAPES["offset"]).float()), v, True)


@pytest.mark.parametrize("width", [1, 3, 7, 9, 11, 17, 19])
def test_fused_equals_eager_for_other_widths(width):
    for name, outside in product(("query", "key"), ("clamp", "zero")):
        results = []
        for kernel in (fused, eager):
            table = numbers(B, H, N, width, seed=9).requires_grad_()
            y = attended(kernel, **inputs(()), **{name: table}, outside=outside)
            y.square().sum().backward()
            results.append((y.detach(), table.grad))
        assert_close(*results)


@EITHER
def test_kernels_of_a_sequence_of_padding_alone_give_no_nan(kernel):
    q = numbers(B, H, N, D)
    assert attended(kernel, q, q, q, torch.zeros(B, N, dtype=torch.bool)).isfinite().all()


@EITHER
def test_zero_terms_equal_no_terms_exactly(kernel):
    x = inputs(()) | {"real": mask()}
    names = ("offset", "query", "key", "dense")
    silent = {name: torch.zeros(SHAPES[name], dtype=torch.float64) for name in names}
    assert torch.equal(attended(kernel, **x, **silent), attended(kernel, **x))


@EITHER
@pytest.mark.parametrize(("name", "neighbour"), [("offset", 1), ("query", 1), ("key", -1)])
def test_a_one_hot_kernel_at_plus_one(kernel, name, neighbour):
    """β, a: each token attends to its right neighbour; b: each is attended to by its right
    neighbour."""
    one_hot = torch.zeros(SHAPES[name], dtype=torch.float64)
    one_hot[..., one_hot.shape[-1] // 2 + 1] = 100.0
    v = numbers(B, H, N, D)
    y = attended(kernel, 0 * v, 0 * v, v, **{name: one_hot}, outside="zero")
    assert_close(y[:, :, 1:-1], v.roll(-neighbour, 2)[:, :, 1:-1])


@EITHER
def test_without_content_the_terms_are_the_scores(kernel):
    dense, v = numbers(*SHAPES["dense"]), numbers(B, H, N, D)
    assert_close(attended(kernel, None, None, v, dense=dense), torch.softmax(dense, -1) @ v)


@EITHER
def test_dropped_probabilities_are_those_of_the_mask(kernel):
    v = torch.eye(N, dtype=torch.float64).expand(1, 1, N, N)
    keep = dropped((1, 1, N, N), Draw(0.4, 77), torch.device("cpu")) >= 0
    y = attended(kernel, 0 * v, 0 * v, v, dropout=(0.4, 77))
    assert_close(y, keep.double() * rescale(0.4) / N)


def test_auto_takes_the_first_kernel_that_serves():
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

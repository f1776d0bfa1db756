"""`relpos.attention` equals the equation, whatever holes are filled, and its gradients are the same
bits each time."""

import math
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import relpos
from model.attention_loops import looped
from relpos.errors import RelposError
from schemes import numbers, refusal

BATCH, HEADS, N, WIDTH, K = 2, 2, 5, 4, 1
NAMES = ("offset", "from_query", "from_key", "dense", "value")


def drawn(*names: str, dtype: torch.dtype = torch.float64, n: int = N) -> dict[str, Tensor]:
    """Tensors of these names; all by default."""
    generator = torch.Generator().manual_seed(0)
    shapes = dict.fromkeys("qkv", (BATCH, HEADS, n, WIDTH)) | {
        "offset": (HEADS, 2 * n - 1),
        "from_query": (BATCH, HEADS, n, 2 * K + 1),
        "from_key": (BATCH, HEADS, n, 2 * K + 1),
        "dense": (1, HEADS, n, n),
        "value": (2 * K + 1, WIDTH),
    }
    return {
        name: torch.randn(shape, generator=generator).to(dtype).requires_grad_()
        for name, shape in shapes.items()
        if not names or name in names
    }


def expected(given: dict[str, Tensor], mask: Tensor | None = None, **how: Any) -> Tensor:
    return looped({name.removeprefix("from_"): x for name, x in given.items()}, mask, **how)


def call(given: dict[str, Tensor], **keys: Any) -> Tensor:
    rest = {name: x for name, x in given.items() if name not in "qkv"}
    return relpos.attention(given.get("q"), given.get("k"), given["v"], **rest, **keys)


MASK = torch.tensor([[True] * N, [True, False, True, True, False]])


@pytest.mark.parametrize(
    ("names", "outside", "causal"),
    [
        *(
            (names, *how)
            for names in ((), *((name,) for name in NAMES))
            for how in (("clamp", False), ("zero", True))
        ),
        *((NAMES, outside, causal) for outside in ("clamp", "zero") for causal in (False, True)),
    ],
)
def test_values_and_gradients_are_those_of_the_equation(names, outside, causal):
    given = drawn(*"qkv", *names)
    for mask in (None, MASK):
        how = {"outside": outside, "mask": mask, "causal": causal, "scale": 0.3}
        ours, theirs = call(given, **how), expected(given, **how)
        assert (ours - theirs).abs().max() < 1e-10
        weights = torch.linspace(-1, 1, ours.numel(), dtype=ours.dtype).view_as(ours)
        grads = (torch.autograd.grad((y * weights).sum(), given.values()) for y in (ours, theirs))
        for mine, other in zip(*grads, strict=True):
            assert (mine - other).abs().max() < 1e-10


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 2e-5), (torch.bfloat16, 0.1)])
def test_other_number_formats_equal_float64(dtype, close, causal):
    exact = {
        name: x.detach().to(dtype).double().requires_grad_() for name, x in drawn(n=40).items()
    }
    given = {name: x.detach().to(dtype).requires_grad_() for name, x in exact.items()}
    mask = torch.arange(40)[None] < torch.tensor([[40], [23]])
    ours, theirs = call(given, mask=mask, causal=causal), call(exact, mask=mask, causal=causal)
    assert ours.dtype == dtype
    assert (ours.double() - theirs).abs().max() < close
    ours.double().square().sum().backward()
    theirs.square().sum().backward()
    for name in given:
        mine, other = given[name].grad, exact[name].grad
        assert mine is not None and other is not None and torch.isfinite(mine).all()  # noqa: PT018
        assert (mine.double() - other).abs().max() <= 5 * close * (1 + other.abs().max())


def test_gradients_have_the_same_bits_each_time():
    given = drawn(dtype=torch.float32, n=40)

    def gradients() -> tuple[Tensor, ...]:
        return torch.autograd.grad(call(given, dropout=0.2, seed=3).square().sum(), given.values())

    first = gradients()
    for _ in range(9):
        assert all(torch.equal(mine, other) for mine, other in zip(gradients(), first, strict=True))


def test_a_seed_decides_dropout():
    given = drawn(dtype=torch.float32)
    assert torch.equal(call(given, dropout=0.5, seed=1), call(given, dropout=0.5, seed=1))
    assert not torch.equal(call(given, dropout=0.5, seed=1), call(given, dropout=0.5, seed=2))
    assert torch.equal(call(given, dropout=0.0), call(given))


def test_the_terms_alone_make_the_scores():
    given = drawn("v", "offset")
    assert (call(given) - expected(given)).abs().max() < 1e-10


def test_the_scale_is_one_over_the_root_of_the_width():
    given = drawn(*"qkv")
    theirs = torch.nn.functional.scaled_dot_product_attention(*given.values())
    assert (call(given) - theirs).abs().max() < 1e-12
    assert math.isclose(WIDTH**-0.5, 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset": torch.zeros(3, 10)}, "offset is (3, 10)"),
        ({"from_query": torch.zeros(2, 3, 6, 4)}, "2k+1"),
        ({"dense": torch.zeros(3, 3, 6, 6)}, "1 or 2"),
        ({"mask": torch.zeros(2, 6)}, "must be bool"),
        ({"outside": "wrap"}, "outside"),
        ({"dropout": 1.5}, "dropout"),
        ({"k": None}, "give both, or neither"),
        ({"v": None}, "v is of type NoneType"),
        ({"mask": [[True] * 6] * 2}, "mask is of type list"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(change, message):
    x = torch.zeros(2, 3, 6, 4)
    assert message in refusal(relpos.attention, **{"q": x, "k": x, "v": x} | change)


def test_autocast_in_float16_is_refused():
    given = drawn(*"qkv", dtype=torch.float32)
    with torch.autocast("cpu", torch.float16), pytest.raises(RelposError, match="float16"):
        call(given, mask=MASK)


def test_second_derivatives_are_refused_and_not_wrong():
    given = drawn(*"qkv")
    (first,) = torch.autograd.grad(call(given).square().sum(), given["q"], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


W = numbers(BATCH, HEADS, N, WIDTH, seed=7)
HOW = [{}, {"causal": True}, {"dropout": 0.25, "seed": 3}, {"mask": MASK, "outside": "zero"}]


def of_tensors(given: dict[str, Tensor], **keys: Any) -> tuple[Any, tuple[Tensor, ...]]:
    """`call` as a function of its tensors alone, and the tensors."""
    names = tuple(given)
    return lambda *x: call(dict(zip(names, x, strict=True)), **keys), tuple(
        x.detach() for x in given.values()
    )


@pytest.mark.parametrize("how", HOW, ids=str)
def test_gradients_by_torch_func_are_those_of_backward(how):
    given = drawn()
    function, tensors = of_tensors(given, **how)
    gradients = torch.func.grad(
        lambda *x: (function(*x) * W).sum(), argnums=tuple(range(len(tensors)))
    )(*tensors)
    (call(given, **how) * W).sum().backward()
    assert_close(gradients, tuple(x.grad for x in given.values()))


@pytest.mark.parametrize("how", HOW, ids=str)
def test_derivatives_along_a_direction_are_those_of_differences(how):
    function, tensors = of_tensors(drawn(), **how)
    directions = tuple(torch.randn_like(x) for x in tensors)
    _, derivative = torch.func.jvp(function, tensors, directions)
    steps = [
        function(*(x + step * d for x, d in zip(tensors, directions, strict=True)))
        for step in (1e-6, -1e-6)
    ]
    assert_close(derivative, (steps[0] - steps[1]) / 2e-6, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("how", HOW, ids=str)
def test_vmap_equals_separate_calls(how):
    function, tensors = of_tensors(drawn(), **how)
    batches = tuple(torch.stack((x, x * 0.5, x - 1)) for x in tensors)
    outputs = torch.stack([function(*(x[number] for x in batches)) for number in range(3)])
    assert_close(torch.func.vmap(function)(*batches), outputs)
    inner = torch.func.vmap(torch.func.grad(lambda *x: (function(*x) * W).sum()))(*batches)
    assert inner.shape == batches[0].shape


COMPILED = """
import torch, relpos
q, k, v = torch.randn(3, 2, 2, 5, 4).unbind()
terms = {"offset": torch.randn(2, 9), "from_query": torch.randn(2, 2, 5, 3), "dense": torch.randn(1, 2, 5, 5)}
terms["value"] = torch.randn(3, 4)
mask = torch.tensor([[True] * 5, [True, False, True, True, False]])
for how in ({}, {"causal": True}, {"mask": mask, "outside": "zero"}, {"dropout": 0.25, "seed": 3}):
    grads = []
    for compiled in (True, False):
        given = {name: x.clone().requires_grad_() for name, x in terms.items()}
        function = lambda q: relpos.attention(q, k, v, **given, **how)
        function = torch.compile(function, fullgraph=True, backend="aot_eager") if compiled else function
        function(q).square().sum().backward()
        grads.append([x.grad for x in given.values()])
    torch.testing.assert_close(*grads)
"""


@pytest.mark.full
def test_a_compiler_sees_one_graph():
    """In a process of its own: here annotations are checked, which a compiler would have to
    understand."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("causal", [False, True])
def test_a_token_that_may_read_no_token_gets_zeros_and_gives_no_gradients(causal):
    given, mask = drawn(), torch.tensor([[False] * N, [False, False, True, True, True]])
    y = call(given, mask=mask, causal=causal)
    y[0].sum().backward()
    assert not y[0].any()
    assert not any(x.grad is None or x.grad.any() for x in given.values())
    assert bool(y[1, :, :2].any()) != causal
    assert y[1, :, 2:].all()

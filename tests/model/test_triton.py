"""The Triton kernel in Triton's interpreter: values and gradients beside those of `eager`, both
against float64."""

import os
from contextlib import nullcontext
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model import plain_kind
from relpos.errors import RelposError
from relpos.model import kernels
from relpos.model.kernels import eager, proof
from relpos.model.kernels import triton as fused_triton
from relpos.model.position import Terms
from relpos.model.tokens import Tokens
from schemes import FULL, batch, gradients_of, model_of

pytest.importorskip("triton", reason="Triton is not installed: it is there for Linux alone")


Case = tuple[str, bool, tuple[float, int]]  # outside, padded, dropout
B, D, K = 2, 16, 3
EVERY = ("offset", "query", "key", "dense", "value")
KINDS: list[tuple[str, ...]] = [(), *((name,) for name in EVERY)]
DROPPED, KEPT = (0.1, 12345), (0.0, 0)
CASES: list[Case] = [
    (outside, padded, dropout)
    for outside, padded, dropout in product(("clamp", "zero"), (True, False), (DROPPED, KEPT))
    if (outside == "clamp") == (padded == (dropout == DROPPED))
]
"""Of the eight the four that hold each combination of two."""
DEVICE = "cpu" if os.environ["TRITON_INTERPRET"] == "1" else "cuda"
WORSE = 1.5  # times eager's distance from float64, in the same number format …
# … and so many roundings of sums and products, which are in float32: eager's may be lucky, and the
# interpreter's products, NumPy's, are summed in another order by each of OpenBLAS's kernels.
ROUNDED = 24 * torch.finfo(torch.float32).eps


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64
    ).to(DEVICE)


def results(
    kernel: Any, names: tuple[str, ...], case: Case, n: int, stored: torch.dtype, *, exact: bool = False, heads: int = 1,
    k: int = K, examples: int = 1, content: bool = True,
) -> dict[str, Tensor]:  # fmt: skip
    """Output and gradients for inputs that are rounded to `stored`; `exact` computes with them in
    float64."""
    outside, padded, dropout = case
    shapes = dict.fromkeys("qkv", (B, heads, n, D)) | {
        "offset": (heads, 2 * n - 1), "query": (B, heads, n, 2 * k + 1), "key": (B, heads, n, 2 * k + 1),
        "dense": (examples, heads, n, n), "value": (2 * k + 1, D),
    }  # fmt: skip
    wanted = [*("qkv" if content else "v"), *names]
    dtype = torch.float64 if exact else stored
    x = {
        name: numbers(*shapes[name], seed=i).to(stored).to(dtype).requires_grad_()
        for i, name in enumerate(wanted)
    }
    real = torch.ones(B, n, dtype=torch.bool, device=DEVICE)
    real[1, -n // 3 :] = False
    terms = Terms(**{name: x[name] for name in names}, outside=outside)
    mixed = stored == torch.bfloat16 and not exact
    with torch.autocast(DEVICE, torch.bfloat16) if mixed else nullcontext():
        y = kernel.attention(
            x.get("q"), x.get("k"), x["v"], terms, real if padded else None, dropout
        )
    if padded:  # finite at padding, and of no meaning there
        y = y * real[:, None, :, None]
    y.backward(numbers(B, heads, n, D, seed=9).to(y.dtype))
    return {"y": y.detach()} | {
        name: value.grad for name, value in x.items() if value.grad is not None
    }


def distances(results: dict[str, Tensor], reference: dict[str, Tensor]) -> dict[str, float]:
    return {
        name: float((results[name] - value).norm() / value.norm())
        for name, value in reference.items()
    }


def tile(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(fused_triton, "_tiles", lambda *_, **__: fused_triton.Tiles(16, columns, 4))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences of 32 tokens or fewer end in the first half of a tile of all keys."""
    monkeypatch.setattr(fused_triton, "SHORT", 32)
    monkeypatch.setattr(
        fused_triton, "_tiles", lambda n, *_, **__: fused_triton.Tiles(16, 64 if n > 32 else 32, 4)
    )


def assert_as_close_as_eager(*arguments: Any, **options: Any) -> None:
    reference = results(eager, *arguments, exact=True, **options)
    errors, allowed = (
        distances(results(kernel, *arguments, **options), reference)
        for kernel in (fused_triton, eager)
    )
    assert {
        name: value for name, value in errors.items() if value > WORSE * allowed[name] + ROUNDED
    } == {}


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("names", KINDS, ids=lambda names: "+".join(names) or "none")
def test_each_kind_of_term_is_as_close_to_float64_as_eager(names, case):
    assert_as_close_as_eager(names, case, 24, torch.float32)


@pytest.mark.parametrize("names", KINDS if FULL else [EVERY], ids="+".join)
def test_bfloat16_is_as_close_to_float64_as_eager(names):
    for case in CASES if FULL else CASES[:1]:
        assert_as_close_as_eager(names, case, 24, torch.bfloat16)


@pytest.mark.full
@pytest.mark.parametrize(
    ("outside", "padded", "dropout", "stored"),
    [(*CASES[0], torch.float32), (*CASES[1], torch.bfloat16), (*CASES[2], torch.float32)],
    ids=str,
)
def test_several_tiles_make_one_matrix(outside, padded, dropout, stored, monkeypatch):
    tile(monkeypatch, 16)
    assert_as_close_as_eager(
        EVERY, (outside, padded, dropout), 40, stored, heads=1 if stored == torch.float32 else 2
    )


def test_two_runs_give_the_same_bits():
    first, second = (
        results(fused_triton, EVERY, CASES[0], 24, torch.float32, heads=2) for _ in range(2)
    )
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_scores_without_content():
    assert_as_close_as_eager(("dense", "offset"), CASES[0], 24, torch.float32, content=False)


def test_a_dense_term_of_each_example():
    assert_as_close_as_eager(("dense",), CASES[0], 24, torch.float32, examples=B)


@pytest.mark.parametrize(("k", "n"), [(0, 9), (12, 9)])
def test_windows_of_one_column_and_wider_than_the_sequence(k, n):
    for outside in ("clamp", "zero"):
        outputs = [
            results(kernel, ("query", "key"), (outside, True, KEPT), n, torch.float32, k=k)
            for kernel in (fused_triton, eager)
        ]
        assert_close(*outputs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("columns", [32, 64])
def test_large_kernels_of_keys_beyond_their_window_leave_gradients_finite(columns, monkeypatch):
    """Behind the last query their exponentials are infinite; where one tile holds all keys, and
    where several do."""
    tile(monkeypatch, columns)
    q, k, v = (numbers(1, 1, 45, D, seed=seed).float().requires_grad_() for seed in range(3))
    key = (numbers(1, 1, 45, 2 * K + 1).float() + 100).requires_grad_()
    fused_triton.attention(q, k, v, Terms(key=key), None, KEPT).sum().backward()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v, key))


def test_a_sequence_of_padding_alone_has_no_nan():
    q = numbers(1, 1, 5, D).float().requires_grad_()
    y = fused_triton.attention(
        q, q, q, Terms(), torch.zeros(1, 5, dtype=torch.bool, device=DEVICE), KEPT
    )
    y.sum().backward()
    assert q.grad is not None
    assert y.isfinite().all()
    assert q.grad.isfinite().all()


def test_nothing_is_read_behind_a_sequence_of_padding_alone_in_one_row():
    held = Tokens.first(2, 24, torch.tensor([0, 1, 2, 24], device=DEVICE))
    q, k, v = (torch.full((1, 1, 48, D), torch.nan, device=DEVICE)[:, :, :4] for _ in range(3))
    for x in (q, k, v):
        x.copy_(numbers(1, 1, 4, D)).requires_grad_()
    offset = torch.zeros(1, 47, device=DEVICE, requires_grad=True)
    real = torch.arange(48, device=DEVICE).view(2, 24) < 3
    fused_triton.attention(q, k, v, Terms(offset=offset), real, KEPT, held=held).sum().backward()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v, offset))


def test_any_strides_will_do():
    x = numbers(B, 9, 2, 3 * D).float()
    views = [part.transpose(1, 2) for part in x.split(D, -1)]
    plain = fused_triton.attention(*(view.contiguous() for view in views), Terms(), None, KEPT)
    assert torch.equal(fused_triton.attention(*views, Terms(), None, KEPT), plain)


@pytest.mark.skipif(DEVICE == "cuda", reason="here it serves")
def test_without_cuda_the_kernel_is_refused():
    with pytest.raises(
        RelposError, match="attention kernel 'triton' needs CUDA and this is cpu; speed.kernel=auto"
    ):
        kernels.select("triton", Terms(), numbers(1, 1, 3, D), True)


PROVEN: dict[Any, bool] = {}
HOLDS = proof.holds.__wrapped__


def _proven_once(kernel: Any, kind: Any) -> bool:
    if (kernel, kind) not in PROVEN:
        PROVEN[kernel, kind] = HOLDS(kernel, kind)
    return PROVEN[kernel, kind]


OF_EACH_KIND = (
    "none", "dual_triangle", "absolute_composite", "composite", "composite_key", "key", "shaw", "synthesizer_dense", "deberta",
    "fox", "xl",
)  # fmt: skip
"""A preset for each set of terms that presets have; a GPU gets this kernel after a proof for the
set at hand."""


@pytest.mark.full
@pytest.mark.parametrize("position", OF_EACH_KIND)
def test_presets_of_each_kind_of_terms_train_as_with_eager(position, monkeypatch):
    # on a CPU, too
    monkeypatch.setattr(
        fused_triton, "supports", lambda terms, *_: terms.columns is None and terms.reach is None
    )
    # Each kind of terms proves itself over two tiles of one head; as it is, that takes the
    # interpreter twelve seconds.
    monkeypatch.setattr(proof, "holds", _proven_once)
    monkeypatch.setattr(proof, "LENGTHS", (21,))
    monkeypatch.setattr(proof, "HEADS", 1)
    tile(monkeypatch, 16)
    losses, grads = [], []
    for kernel in ("auto", "eager"):
        model = model_of(position, kernel=kernel, layers=1).float().to(DEVICE).train()
        ids, mask = (x.to(DEVICE) for x in batch())
        loss = model.loss(ids, torch.where(mask.bool(), ids, -100), mask)
        loss.backward()
        losses.append(loss.detach())
        grads.append(gradients_of(model))
    assert all(PROVEN.values())
    assert_close(*losses, atol=1e-5, rtol=1e-5)
    assert_close(*grads, atol=1e-4, rtol=1e-3)


def test_first_keys_may_all_be_hidden_by_offsets():
    q, k, v = (numbers(1, 2, 70, D, seed=seed).float() for seed in range(3))
    offset = torch.zeros(2, 139, device=DEVICE).masked_fill(
        torch.arange(139, device=DEVICE) < 66, -torch.inf
    )
    ours, theirs = (
        kernel.attention(q, k, v, Terms(offset=offset), None, KEPT)
        for kernel in (fused_triton, eager)
    )
    assert (ours - theirs).abs().max() < 1e-5


@pytest.mark.parametrize(
    "dtype", [pytest.param(torch.float32, marks=pytest.mark.full), torch.bfloat16], ids=str
)
def test_blocks_of_fewer_queries_than_keys(monkeypatch, dtype):
    """As in training with bfloat16 at 128 tokens: one tile holds all keys, and some of the
    queries."""
    tile(monkeypatch, 32)
    assert_as_close_as_eager(EVERY, CASES[0], 28, dtype, heads=2)


@pytest.mark.parametrize("outside", ["clamp", pytest.param("zero", marks=pytest.mark.full)])
@pytest.mark.parametrize("names", [EVERY, (), ("query",), ("query", "key")], ids="+".join)
@pytest.mark.usefixtures("short")
def test_sequences_that_end_in_the_first_half_of_a_tile_of_all_keys(names, outside):
    """As in training with bfloat16 on pairs of 64 tokens or fewer that stand in rows of 128.
    Windows alone are read near their queries and keys."""
    case = (outside, True, DROPPED)
    assert_as_close_as_eager(names, case, 45, torch.float32)  # of 45 and 30 tokens
    gradients = results(fused_triton, names, case, 45, torch.float32)
    for name in "qkv":  # what a linear map's gradient reads
        assert not gradients[name][1, :, 30:].any()


KIND = plain_kind.KIND._replace(device=torch.device(DEVICE), head_dim=D, offset=True)
TABLES = {"query": D, "key": D, "query_table": 7, "key_table": 7}


@pytest.mark.full
@pytest.mark.parametrize("narrow", [True, False])
def test_kernels_that_are_products_with_a_table(monkeypatch, narrow):
    kind = KIND._replace(**TABLES, narrow=narrow, query_bias=narrow)
    for n in (21, 40):  # one tile of keys, and two
        assert proof.compare(fused_triton, kind, n, True, 0.1) is None


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("of", ["offset", "windows", "tables", "offset and tables"])
def test_sequences_in_one_row(of, monkeypatch):
    """Some of the padding is in it, too; sequences of both lengths that have a launch of their
    own."""
    monkeypatch.setattr(fused_triton, "serves", lambda *_: True)
    kind = KIND._replace(packed=True)
    if of == "windows":
        kind = kind._replace(offset=False, query=2 * K + 1, key=2 * K + 1, outside="zero")
    if of.endswith("tables"):
        kind = kind._replace(**TABLES, offset=of != "tables", narrow=True, query_bias=True)
    called: list[Any] = []
    plain = fused_triton.attention
    monkeypatch.setattr(
        fused_triton, "attention", lambda *x, held=None: called.append(held) or plain(*x, held=held)
    )
    for n in (24, 45):  # of 45 and 30 tokens, of which the first half of a tile has the second
        assert proof.compare(fused_triton, kind, n, True, 0.1) is None
    assert all(held is not None for held in called)

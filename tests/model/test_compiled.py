"""The kernels that are compiled for the processor at hand equal the definition. Skipped where there
is no compiler."""

import shutil
import subprocess
from dataclasses import replace
from itertools import product
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from model.plain_kind import KIND
from relpos.analysis.recording import random_ids, record
from relpos.errors import RelposError
from relpos.model import kernels
from relpos.model.attention import LayerCall
from relpos.model.dropout import Draw, seed_dropout
from relpos.model.kernels import compiled, fused, layer_cpu, library, proof, sweeps, sweeps_cpu
from relpos.model.loss import IGNORED, tied_cross_entropy
from relpos.model.position import DualTriangle, Terms
from relpos.model.shape import Shape
from relpos.model.tokens import Tokens
from schemes import FULL, POSITIONS, VOCABULARY, gradients_of, model_of, numbers

FORMATS = (torch.float32, torch.bfloat16)
DTYPES = pytest.mark.parametrize("dtype", FORMATS)
TERMS: dict[str, dict[str, Any]] = {
    "none": {}, "offset": {"offset": True}, "query": {"query": 5}, "key": {"key": 7}, "value": {"value": 5},
    "wide": {"query": 41, "key": 41}, "dense": {"dense": True},
    "all": {"offset": True, "query": 9, "key": 5, "value": 3, "dense": True},
    "columns": {"query": 9, "key": 6, "columns": True}, "mapped query": {"query": 4, "columns": True, "value": 5},
    "factors": {"query": 6, "query_table": 9, "key": 5, "key_table": 7},
    "factored query": {"query": 16, "query_table": 37, "key": 5},
    "wide factors": {"query": 8, "query_table": 393, "key": 8, "key_table": 393, "offset": True},
    "mapped factors": {"query": 8, "query_table": 9, "key": 3, "key_table": 6, "columns": True},
    "reach": {"reach": 3, "offset": True},
    "reach of all": {"reach": 4, "query": 9, "key": 5, "value": 3, "dense": True, "columns": True},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is built, or taken from the user's cache; `conftest` sees to it that later tests
    do not compute with it."""
    monkeypatch.setenv("RELPOS_COMPILE", "1")
    if library.load(build=True) is None:
        pytest.skip("no C++ compiler: the compiled kernels are not tested")


@pytest.fixture
def no_library() -> None:
    """Nothing is loaded, as in a new process."""
    library._loaded.clear()
    library._key.cache_clear()


def kind(name: str, **changes: Any) -> proof.Kind:
    return KIND._replace(**TERMS[name] | changes)


def assert_as_near_as_eager(
    kind: proof.Kind, n: int = 197, padded: bool = True, rate: float = 0.1
) -> None:
    assert proof.compare(compiled, kind, n, padded, rate) is None


@pytest.mark.parametrize(
    ("dtype", "rate", "padded", "outside"),
    # Of the sixteen the eight that hold each combination of three; all with RELPOS_FULL=1.
    [
        case
        for case in product(FORMATS, (0.0, 0.3), (True, False), ("clamp", "zero"))
        if FULL or sum(value in (torch.bfloat16, 0.3, True, "zero") for value in case) % 2
    ],
    ids=str,
)
@pytest.mark.parametrize("name", TERMS)
def test_values_and_gradients_are_as_near_to_float64_as_those_of_eager(
    name, outside, padded, rate, dtype
):
    assert_as_near_as_eager(kind(name, outside=outside, dtype=dtype), 19, padded, rate)


@DTYPES
@pytest.mark.parametrize("width", [8, 64, 72])
def test_sequences_in_several_blocks_are_as_near_as_eager(width, dtype):
    assert_as_near_as_eager(kind("all", dtype=dtype, head_dim=width))


@DTYPES
@pytest.mark.parametrize("name", [name for name in TERMS if "factor" in name])
@pytest.mark.parametrize("reach", [None, 40])
def test_factors_are_multiplied_in_several_blocks(reach, name, dtype):
    assert_as_near_as_eager(kind(name, outside="zero", dtype=dtype, reach=reach))


@DTYPES
@pytest.mark.parametrize("reach", [0, 5, 63, 64, 100, 500])
@pytest.mark.parametrize("name", ["all", "columns"])
def test_blocks_that_see_a_part_of_the_sequence_are_as_near_as_eager(name, reach, dtype):
    assert_as_near_as_eager(kind(name, dtype=dtype, reach=reach))


def test_scores_without_content_are_as_near_as_eager():
    assert_as_near_as_eager(kind("all", outside="zero", content=False), 19)


def gradients(threads: int) -> list[Tensor]:
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    widths = ((3, 2, 40, width) for width in (8, 8, 8, 5, 4))
    inputs = [
        torch.randn(shape, generator=generator).requires_grad_()
        for shape in (*widths, (2, 79), (2, 4, 79))
    ]
    q, k, v, query, key, offset, table = inputs
    y = compiled.attention(
        q, k, v, Terms(offset=offset, query=query, key=key, key_table=table), None, Draw(0.1, 3)
    )
    x = y.transpose(1, 2).flatten(2)
    norm, widen, narrow = nn.LayerNorm(16), nn.Linear(16, 24), nn.Linear(24, 16)
    for part in (*widen.parameters(), *narrow.parameters()):
        part.data.copy_(torch.randn(part.shape, generator=generator))
    normed, _ = sweeps.add_norm(x, x, norm, Draw(0.1, 4))
    sweeps.feed_forward(normed, widen, narrow).square().sum().backward()
    of_inputs = [x.grad for x in inputs if x.grad is not None]
    return [y.detach(), *of_inputs, *gradients_of(norm, widen, narrow)]


def test_two_runs_give_the_same_bits_with_any_number_of_threads():
    once, again, with_two = gradients(1), gradients(1), gradients(2)
    assert all(
        torch.equal(a, b) and torch.equal(a, c)
        for a, b, c in zip(once, again, with_two, strict=True)
    )


@DTYPES
def test_the_passes_over_activations_equal_plain_torch(dtype):
    assert sweeps.fault_of("cpu", dtype) is None


@pytest.mark.parametrize(("n", "taps"), [(40, 17), (7, 17), (5, 1), (128, 9)])
@DTYPES
def test_the_gradient_of_depthwise_weights_is_that_of_conv1d(n, taps, dtype):
    generator = torch.Generator().manual_seed(n)
    x, grad = (torch.randn(3, n, 37, generator=generator).to(dtype) for _ in range(2))
    weight = torch.zeros(37, 1, taps, dtype=torch.float64, requires_grad=True)
    y = torch.nn.functional.conv1d(x.double().transpose(1, 2), weight, padding=taps // 2, groups=37)
    y.backward(grad.double().transpose(1, 2))
    assert weight.grad is not None
    gradient = sweeps_cpu.grad_taps(x, grad, taps).double()
    assert_close(
        gradient, weight.grad[:, 0], rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-4
    )


def test_a_pass_without_gradients_gives_the_same_output():
    v = torch.randn(2, 2, 9, 4)
    with torch.no_grad():
        y = compiled.attention(v, v, v, Terms(), None, (0.0, 0))
    assert_close(y, fused.attention(v, v, v, Terms(), None, (0.0, 0)))


def chosen(kernel: str = "auto", dtype: torch.dtype = torch.float32, **terms: Tensor) -> ModuleType:
    return kernels.select(kernel, Terms(**terms), torch.zeros(1, 1, 3, 4, dtype=dtype), True)


def test_compiled_kernels_serve_float32_and_bfloat16():
    assert all(chosen(dtype=dtype) is compiled for dtype in FORMATS)
    assert chosen(dense=torch.zeros(1, 1, 3, 3)) is compiled
    assert chosen(dtype=torch.float64) is fused


@pytest.mark.usefixtures("no_library")
def test_compiled_kernels_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("RELPOS_COMPILE", "0")
    assert chosen() is fused
    with pytest.raises(RelposError, match="'compiled' needs Linux, a C\\+\\+ compiler"):
        chosen("compiled")


@pytest.mark.usefixtures("no_library")
def test_a_machine_without_a_compiler_is_told_once_and_training_goes_on(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(library, "_which", shutil.which)  # without its cache
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for _ in range(2):
        assert chosen() is fused
    line = "relpos: no C++ compiler g++: plain torch computes instead of the compiled CPU kernels\n"
    assert capsys.readouterr().err == line


@pytest.mark.usefixtures("no_library")
def test_a_compiler_that_fails_is_told_once_and_training_goes_on(monkeypatch, tmp_path):
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho 'fatal error: no such file' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.warns(
        UserWarning,
        match="cannot be built: fatal error: no such file; plain torch computes instead",
    ):
        assert chosen() is fused
    assert chosen() is fused
    assert not list((tmp_path / "relpos").glob("*.so"))


def test_the_loss_over_the_vocabulary_has_the_values_and_gradients_of_plain_torch():
    generator = torch.Generator().manual_seed(0)
    x, words, bias = (
        torch.randn(*shape, generator=generator).requires_grad_()
        for shape in ((130, 3), (70, 3), (70,))
    )
    target = torch.randint(70, (130,), generator=generator)
    results = []
    for swept in (True, False):
        for part in (x, words, bias):
            part.grad = None
        total, right = tied_cross_entropy(x, words, bias, target, swept=swept)
        (total / 130).backward()
        results.append([total.detach(), right, *(part.grad for part in (x, words, bias))])
    assert_close(*results)


@DTYPES
@pytest.mark.parametrize("kernel", [fused, compiled])
def test_hidden_values_do_not_reach_the_output(kernel, dtype):
    """The first head does not see the right side, nor the second the left one; the second row has
    padding."""
    n, generator = 70, torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, n, 16, generator=generator).to(dtype) for _ in "qkv")
    mask = torch.arange(n) < torch.tensor([[n], [30]])
    scheme = DualTriangle(replace(Shape.example(), head_dim=16))
    terms, other = scheme.terms(0, q, k, scheme.prepare(n)), v.clone()
    other[:, 0, 21:], other[:, 1, :20] = 1e4, -1e4
    outputs = [kernel.attention(q, k, x, terms, mask, (0.0, 0))[:, :, 20] for x in (v, other)]
    assert outputs[0].isfinite().all()
    assert torch.equal(*outputs)


def test_a_label_beyond_the_vocabulary_is_refused_and_not_written():
    with pytest.raises(RelposError, match="labels from 1 to 9 in a vocabulary of 5"):
        sweeps.cross_entropy_(torch.zeros(2, 5), torch.zeros(5), torch.tensor([1, 9]))


def test_a_term_of_another_shape_is_refused_and_not_read_beyond_its_end():
    v = torch.randn(1, 2, 5, 4)
    with pytest.raises(
        RelposError, match=r"terms.offset has the shape \(1, 9\); \(2, 9\) is expected"
    ):
        compiled.attention(None, None, v, Terms(offset=torch.zeros(1, 9)), None, (0.0, 0))


SIZE = {"hidden": 48, "embedding": 32, "heads": 3, "ffn": 56, "layers": 2, "max_positions": 64}
BY_TOKEN = [name for name in POSITIONS if model_of(name, **SIZE).encoder.position.by_token]


def results_of_network(
    position: str, dtype: torch.dtype, kernel: str, padded: bool
) -> dict[str, Tensor]:
    """Loss and gradients of a network in float64, computed by way of `dtype`; row 1 is short, and
    with `padded` its padding is computed, too."""
    model = model_of(position, kernel=kernel, spread=0.1, **SIZE).float().to(dtype).train()
    seed_dropout(model, 5, torch.tensor([3, 8, 4]))
    n, generator = 37, torch.Generator().manual_seed(0)
    ids = torch.randint(5, VOCABULARY, (3, n), generator=generator)
    real = torch.arange(n) < torch.tensor([[n], [11], [n - 1]])
    at = torch.tensor([0, 4, n - 1, n + 3, n + 10, 2 * n + 5] + [n + 11] * padded)
    x = model.head.transform(model.encoder(ids, real, at=at))
    total, _ = tied_cross_entropy(
        x.double(), model.table.double(), model.head.bias.double(), ids.flatten()[at]
    )
    total.backward()
    grads = {name: part.grad for name, part in model.named_parameters() if part.grad is not None}
    return {name: x.detach().double() for name, x in (grads | {"loss": total}).items()}


def is_far(tested: Tensor, plain: Tensor, exact: Tensor, dtype: torch.dtype) -> bool:
    """A single number, a sum over all scores, may be exact in plain torch by chance."""
    allowed = proof.allowed(plain, exact, dtype) * (4 if exact.numel() == 1 else 1)
    return not float((tested - exact).norm()) <= allowed


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each pass through a layer was one step of differentiation."""
    ran: list[bool] = []
    of = layer_cpu.layer_of

    def noted(*given: object) -> Tensor | None:
        y = of(*given)
        ran.append(y is not None)
        return y

    monkeypatch.setattr(layer_cpu, "layer_of", noted)
    return ran


@DTYPES
@pytest.mark.parametrize(
    ("name", "padded"), [*((name, False) for name in BY_TOKEN), ("composite_key", True)]
)
def test_a_layer_in_one_step_is_as_near_to_float64_as_plain_torch(name, padded, dtype, layers):
    exact = results_of_network(name, torch.float64, "eager", padded)
    plain = results_of_network(name, dtype, "eager", padded)
    fast = results_of_network(name, dtype, "auto", padded)
    assert layers == [True, True]
    assert fast.keys() == exact.keys()
    # what adds the same to all scores of a row has no gradient but roundings
    names = [key for key in exact if exact[key].norm() > 1e-9]
    far = [key for key in names if is_far(fast[key], plain[key], exact[key], dtype)]
    assert far == []


@torch.no_grad()
def test_a_watched_scheme_receives_the_queries_and_keys_themselves(layers):
    networks = [model_of("absolute", kernel=kernel).float() for kernel in ("auto", "eager")]
    ids = random_ids(networks[0].encoder, 2, 9)
    networks[0].eval().encoder(ids)
    assert layers == [True, True]
    watched, expected = (record(network.encoder, ids) for network in networks)
    for call, exact in zip(watched, expected, strict=True):
        assert_close(call.heads, exact.heads)


@DTYPES
def test_a_pass_without_a_masked_token_has_gradients_of_zero(dtype, layers):
    model = model_of("composite").float().train()
    ids = random_ids(model.encoder, 3, 9)
    seed_dropout(model, 5)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
        loss, number, _ = model.loss_sum(ids, torch.full_like(ids, IGNORED))
    loss.backward()
    assert layers == [True, True]
    assert (float(loss.detach()), int(number)) == (0, 0)
    assert not any(grad.any() for grad in gradients_of(model))


def layer_gradients(threads: int) -> list[Tensor | None]:
    torch.set_num_threads(threads)
    encoder = model_of("composite", spread=0.1, **SIZE).float().train().encoder
    seed_dropout(encoder, 5)
    x = numbers(3, 37, 48).float().requires_grad_()
    held = Tokens(3, 37)
    call = LayerCall(0, encoder.position, encoder.position.prepare(37), None, held, held)
    encoder.layers[0](x, x, call)[0].square().sum().backward()
    return [x.grad, *(part.grad for part in encoder.parameters())]


def test_a_layer_in_one_step_has_the_same_bits_with_any_number_of_threads(layers):
    for a, b in zip(layer_gradients(1), layer_gradients(2), strict=True):
        assert a is b is None or torch.equal(a, b)
    assert layers == [True, True]


@pytest.mark.parametrize("name", ["rope", "shaw", "fox"])
def test_schemes_unknown_to_the_layer_in_one_step_take_many(name, layers):
    results_of_network(name, torch.float32, "auto", False)
    assert True not in layers


def stored(x: Tensor, transposed: bool) -> Tensor:
    return x.t().contiguous() if transposed else x


@DTYPES
@pytest.mark.parametrize("transposed", [*product((False, True), (False, True))])
@pytest.mark.parametrize(
    "sizes", [(5, 7, 3), (100, 530, 64), (97, 48, 201), (1, 16, 8), (7, 40, 0)], ids=str
)
def test_products_add_a_bias_and_a_matrix(sizes, transposed, dtype):
    rows, columns, depth = sizes
    a, b = torch.randn(rows, depth).to(dtype), torch.randn(depth, columns).to(dtype)
    bias, beside = torch.randn(columns), torch.randn(rows, columns).to(dtype)
    exact = a.double() @ b.double() + bias.double() + beside.double()
    factors = [*map(stored, (a, b), transposed)]
    for narrow in (False, True):
        output = sweeps_cpu.product(*factors, transposed, bias, beside, narrow)
        assert output.dtype == (dtype if narrow else torch.float32)
        assert_close(output.double(), exact, atol=0.1 if narrow else 1e-4, rtol=0.01)


@DTYPES
@pytest.mark.parametrize("sizes", [(1, 0, 5), (2, 1, 256), (1, 200, 257), (3, 5000, 7)], ids=str)
def test_sums_of_rows_are_as_exact_as_a_sum_of_sums(sizes, dtype):
    x = (1000 + torch.randn(sizes)).to(dtype)
    sums = sweeps_cpu.sum_rows(x)
    assert sums.dtype == torch.float32
    # A plain sum of 5,000 rows in float32 is off by 1e-5.
    assert_close(sums.double(), x.double().sum(1), atol=0, rtol=3e-6)
    assert torch.equal(sweeps_cpu.sum_rows(x, dtype), sums.to(dtype))


def test_where_bfloat16_does_not_pay_rounded_factors_are_multiplied_as_floats_are(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernels, "bf16_gain", lambda: 0.5)
    monkeypatch.setattr(library, "_key", library._key.__wrapped__)
    monkeypatch.setattr(library, "_loaded", {})
    assert library.load(build=True)
    for rows, columns, depth in ((5, 17, 3), (100, 528, 64), (98, 48, 201), (40, 4, 9)):
        a, b = (torch.randn(size).bfloat16() for size in ((rows, depth), (depth, columns)))
        for transposed in product((False, True), repeat=2):
            factors = [*map(stored, (a, b), transposed)]
            floats = sweeps_cpu.product(*(x.float() for x in factors), transposed)
            assert torch.equal(sweeps_cpu.product(*factors, transposed, narrow=False), floats)
    assert sweeps.fault_of("cpu", torch.bfloat16) is None
    assert layer_cpu.fault_of(kind("factors", outside="zero", dtype=torch.bfloat16)) is None
    assert proof.fault_of(compiled.__name__, kind("all", dtype=torch.bfloat16)) is None


REUSED = """
import resource, torch
from relpos.model.kernels import library
library.load(build=True)
for _ in range(16):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.empty(24 << 20).fill_(1)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_freed_memory_is_used_again_however_large_the_block(python):
    output = subprocess.run([python, "-c", REUSED], check=True, stdout=subprocess.PIPE).stdout
    faults = [int(line) for line in output.split()]
    # 96 MB are 24,576 pages, or 48 large ones. A block that is mapped has new ones each time; the
    # heap grows until a block fits between what else was allocated.
    assert min(faults) < 20

"""The single passes for CUDA in Triton's interpreter, beside plain torch."""

import pytest
import torch
from torch.testing import assert_close

from relpos.model import block
from relpos.model.dropout import Draw, Examples, RecordedKeys, drop
from relpos.model.kernels import sweeps
from relpos.model.tokens import Tokens

pytest.importorskip("triton", reason="Triton is not installed: it is there for Linux alone")
from relpos.model.kernels import triton_sweeps


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "passes", lambda _: triton_sweeps)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_passes_equal_plain_torch(dtype):
    assert sweeps.fault_of("cpu", dtype) is None


@pytest.mark.parametrize("draw", [Draw(0.0, 0), Draw(0.25, 7)])
def test_a_bias_that_is_added_with_the_sum_has_the_gradient_of_one_added_before(draw):
    torch.manual_seed(0)
    norm, bias = torch.nn.LayerNorm(20), torch.randn(20, requires_grad=True)
    x, y = (torch.randn(3, 7, 20, requires_grad=True) for _ in range(2))
    parts = (x, y, bias, *norm.parameters())
    upstream = torch.randn(3, 7, 20)
    ours, again = sweeps.add_norm(x, y, norm, draw, bias)
    plain = block.add_norm(x, y + bias, norm, draw)
    assert_close(again, ours, atol=0, rtol=0)
    assert_close(ours, plain, atol=1e-5, rtol=1e-5)
    expected = torch.autograd.grad(plain, parts, upstream)
    for outputs, grads in (
        ((ours,), (upstream,)),
        ((again, ours), (0.25 * upstream, 0.75 * upstream)),
    ):
        gradients = torch.autograd.grad(outputs, parts, grads, retain_graph=True)
        assert_close(gradients, expected, atol=1e-5, rtol=1e-5)


def test_a_program_that_walks_over_several_tiles_adds_all_their_rows(monkeypatch):
    # tiles of two rows, three or four for a program
    for name, value in {"TILE": 128, "MOST_PARTS": 3}.items():
        monkeypatch.setattr(triton_sweeps, name, value)
    test_a_bias_that_is_added_with_the_sum_has_the_gradient_of_one_added_before(Draw(0.25, 7))


def test_masks_are_those_of_the_tokens_that_are_held_and_of_a_recorded_key():
    keys = RecordedKeys(torch.device("cpu"))
    held = Tokens(3, 4, torch.tensor([0, 5, 6, 11]))
    draw = Draw(0.5, keys.key(2, 1), Examples(torch.tensor([9, 4, 7])), held)
    norm, x = torch.nn.LayerNorm(12), torch.zeros(4, 12)
    y = torch.randn(4, 12)
    assert_close(sweeps.add_norm(x, y, norm, draw)[0], block.add_norm(x, y, norm, draw))


def test_sums_of_many_rows():
    x = torch.randn(2, 2500, 70)
    assert_close(triton_sweeps.sum_rows(x), x.sum(1), atol=1e-3, rtol=1e-4)


def test_losses_and_gradients_of_rows_are_multiplied_by_their_weights():
    torch.manual_seed(1)
    x, words, bias = torch.randn(5, 6), torch.randn(70, 6), torch.randn(70)
    target, counts = torch.tensor([3, 0, 69, 1, 2]), torch.tensor([1.0, 0.0, 2.5, 1.0, 0.0])
    logits = x @ words.t() + bias
    losses, _ = sweeps.cross_entropy_(gradient := logits.clone(), None, target, counts)
    expected = torch.nn.functional.cross_entropy(logits, target, reduction="none") * counts
    assert_close(losses, expected)
    one_hot = torch.nn.functional.one_hot(target, 70)
    assert_close(gradient, (logits.softmax(1) - one_hot) * counts[:, None])


def test_the_gradients_of_table_and_bias_from_one_product():
    grad, x = torch.randn(9, 64), torch.randn(9, 6)
    assert_close(sweeps.grad_logits(grad, x), (grad.t() @ x, grad.sum(0)))


def test_dropout_is_that_of_plain_torch_with_and_without_a_sum():
    torch.manual_seed(2)
    x, y, upstream = (torch.randn(3, 5, 21, requires_grad=True) for _ in range(3))
    draw = Draw(0.3, 11)
    for given in (None, x):
        outputs = (
            sweeps._SweptDrop.apply(y, draw, given),
            drop(y, draw) if given is None else block.added(given, y, draw),
        )
        assert_close(*outputs)
        parts = (y,) if given is None else (x, y)
        assert_close(*(torch.autograd.grad(out, parts, upstream.detach()) for out in outputs))

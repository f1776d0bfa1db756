"""Number formats."""

from collections.abc import Callable

import pytest
import torch
import torch.utils._python_dispatch
from torch import nn

from relpos.model.precision import autocast, cast_once, casting_once
from relpos.runs import fit


class Casts(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts conversions of matrices of 7 rows."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += func is torch.ops.aten._to_copy.default and args[0].shape == (7, 5) and args[0].dtype == torch.float32
        return func(*args, **kwargs or {})


def by_autocast(x: torch.Tensor, linear: nn.Linear) -> torch.Tensor:
    return linear(x)  # type: ignore[no-any-return]


def by_ourselves(x: torch.Tensor, linear: nn.Linear) -> torch.Tensor:
    return x.bfloat16() @ cast_once(linear.weight, torch.bfloat16).t() + linear.bias


def gradients(once: bool, product: Callable[[torch.Tensor, nn.Linear], torch.Tensor]) -> tuple[int, list[torch.Tensor]]:
    """How often the weight was cast in three passes, and what they summed up."""
    torch.manual_seed(0)
    linear = nn.Linear(5, 7)
    with Casts() as casts, casting_once("bf16" if once else "fp32", "cpu"):
        for number in range(3):
            with autocast("bf16", "cpu"):
                loss = product(torch.full((2, 5), 1.0 + number), linear).float().square().sum()
            loss.backward()
    return casts.count, [part.grad for part in linear.parameters() if part.grad is not None]


@pytest.mark.parametrize("product", [by_autocast, by_ourselves])
def test_the_passes_of_an_update_share_the_cast_of_a_weight(product: Callable[[torch.Tensor, nn.Linear], torch.Tensor]) -> None:
    (several, expected), (once, found) = gradients(False, product), gradients(True, product)
    assert (several, once) == (3, 1)
    torch.testing.assert_close(found, expected, atol=0, rtol=0)


def test_a_processor_that_is_slow_at_bf16_is_told_by_how_much(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fit, "slowdown_of_bf16", lambda: 0.6)
    fit.warn_of_bf16()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(fit, "slowdown_of_bf16", lambda: 5.25)
    fit.warn_of_bf16()
    assert "takes 5.2 times as long over a matrix product in bf16 as in fp32; precision=fp32 is faster" in capsys.readouterr().err

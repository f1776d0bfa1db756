"""Number formats."""

import subprocess
from collections.abc import Callable

import pytest
import torch
import torch.utils._python_dispatch
from torch import nn

from relpos.model.kernels import rate
from relpos.model.precision import autocast, cast_once, casting_once, has_bf16
from relpos.runs import training
from schemes import gradients_of


class Casts(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts conversions of matrices of 7 rows."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += (
            func is torch.ops.aten._to_copy.default
            and args[0].shape == (7, 5)
            and args[0].dtype == torch.float32
        )
        return func(*args, **kwargs or {})


def by_autocast(x: torch.Tensor, linear: nn.Linear) -> torch.Tensor:
    return linear(x)  # type: ignore[no-any-return]


def by_ourselves(x: torch.Tensor, linear: nn.Linear) -> torch.Tensor:
    return x.bfloat16() @ cast_once(linear.weight, torch.bfloat16).t() + linear.bias


def gradients(
    once: bool, product: Callable[[torch.Tensor, nn.Linear], torch.Tensor]
) -> tuple[int, list[torch.Tensor]]:
    """How often the weight was cast in three passes, and what they summed up."""
    torch.manual_seed(0)
    linear = nn.Linear(5, 7)
    with Casts() as casts, casting_once("bf16" if once else "fp32", "cpu"):
        for number in range(3):
            with autocast("bf16", "cpu"):
                loss = product(torch.full((2, 5), 1.0 + number), linear).float().square().sum()
            loss.backward()
    return casts.count, gradients_of(linear)


@pytest.mark.parametrize("product", [by_autocast, by_ourselves])
def test_the_passes_of_an_update_share_the_cast_of_a_weight(product):
    (several, expected), (once, sums) = gradients(False, product), gradients(True, product)
    assert (several, once) == (3, 1)
    torch.testing.assert_close(sums, expected, atol=0, rtol=0)


WITHOUT_BF16 = """
import torch
from relpos.model import precision
products = {
    "mm": lambda a, b, c: a[0] @ b[0],
    "bmm": lambda a, b, c: a @ b,
    "addmm": lambda a, b, c: torch.addmm(c[0], a[0], b[0], beta=0.5, alpha=2),
    "baddbmm": lambda a, b, c: torch.baddbmm(c, a, b, beta=0.5, alpha=2),
    "linear": lambda a, b, c: torch.nn.functional.linear(a, b[0].t(), c[0, 0]),
}
factors = [torch.randn(shape, generator=torch.Generator().manual_seed(1)) for shape in ((3, 64, 300), (3, 300, 65), (3, 64, 65))]
formats = {"rounded": lambda x: x.bfloat16().float(), "float": torch.Tensor.float, "double": torch.Tensor.double}
before = {(name, kind): product(*map(to, factors)) for name, product in products.items() for kind, to in formats.items()}
precision.has_bf16 = lambda: False
precision.autocast("bf16", "cpu")
for name, product in products.items():
    half = product(*(x.bfloat16() for x in factors))
    print(name, "bf16", torch.equal(half, before[name, "rounded"].bfloat16()))
    for kind in ("float", "double"):
        print(name, kind, torch.equal(product(*map(formats[kind], factors)), before[name, kind]))
"""


def test_a_processor_without_bfloat16_multiplies_rounded_factors_in_float32(python):
    # In a process of its own: torch's products are replaced for good.
    lines = subprocess.run(
        [python, "-c", WITHOUT_BF16], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()
    assert len(lines) == 15
    assert [line for line in lines if not line.endswith(" True")] == []


def test_only_a_processor_without_bfloat16_says_so(monkeypatch, capsys):
    monkeypatch.setattr(training, "has_bf16", lambda: True)
    training.tell_of_precision("bf16", torch.device("cpu"))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(training, "has_bf16", lambda: False)
    training.tell_of_precision("fp32", torch.device("cpu"))
    assert capsys.readouterr().err == ""
    training.tell_of_precision("bf16", torch.device("cpu"))
    assert "multiplies bfloat16 no faster than float32" in capsys.readouterr().err


@pytest.mark.parametrize("gain", [0.5, 4.0])
def test_instructions_for_bfloat16_count_where_they_are_no_slower(gain, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    measured = [gain]
    monkeypatch.setattr(rate, "_measured", measured.pop)
    for _ in range(2):  # measured once, then read from what was kept
        rate.bf16_gain.cache_clear()
        assert has_bf16() == (gain > 1)
    rate.bf16_gain.cache_clear()

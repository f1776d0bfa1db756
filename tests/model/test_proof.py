"""An optional attention kernel is used only where it equals the definition."""

import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from relpos.model import kernels
from relpos.model.attention import kernels_used
from relpos.model.kernels import eager, fused
from relpos.model.position import Terms
from schemes import batch, model_of

V = torch.zeros(2, 2, 9, 4)
TERMS = Terms(query=torch.zeros(2, 2, 9, 5))


def optional(monkeypatch: pytest.MonkeyPatch, attention: Callable[..., Any]) -> ModuleType:
    """An attention kernel named `quick` that is tried first."""
    quick = ModuleType("quick")
    monkeypatch.setitem(sys.modules, "quick", quick)
    vars(quick).update(attention=attention, supports=lambda terms, v, training: True)
    monkeypatch.setattr(kernels, "FASTEST_FIRST", (quick, *kernels.FASTEST_FIRST))
    monkeypatch.setattr(kernels, "OPTIONAL", frozenset({quick}))
    monkeypatch.setattr(kernels.proof.library, "key", lambda: None)  # nothing is kept
    return quick


def chosen(kernel: str = "auto", training: bool = True) -> ModuleType:
    return kernels.select(kernel, TERMS, V, training)


def test_a_kernel_that_equals_the_definition_is_used(monkeypatch):
    quick = optional(monkeypatch, fused.attention)
    assert chosen() is quick


def test_a_kernel_that_is_off_is_named_once_and_not_used(monkeypatch):
    optional(monkeypatch, lambda *arguments: 1.001 * eager.attention(*arguments))
    with pytest.warns(
        UserWarning,
        match=r"attention kernel 'quick' is not used on cpu: its output is off by 1\.0e-03",
    ):
        assert chosen() is not kernels.FASTEST_FIRST[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen("quick") is eager


def test_a_wrong_gradient_is_found(monkeypatch):
    def forgets(q: Any, k: Any, v: Any, terms: Terms, mask: Any, dropout: Any) -> Any:
        return eager.attention(q, k.detach(), v, terms, mask, dropout) + 0 * k

    optional(monkeypatch, forgets)
    with pytest.warns(UserWarning, match="its gradient of k is off"):
        chosen()


def test_a_kernel_that_fails_is_not_used(monkeypatch):
    def fails(*arguments: Any) -> Any:
        raise RuntimeError("no kernel image is available\nfor this device")

    optional(monkeypatch, fails)
    with pytest.warns(
        UserWarning,
        match="RuntimeError: no kernel image is available; plain torch computes instead",
    ):
        chosen()


def test_the_proof_is_given_for_each_kind_of_terms_and_number_format(monkeypatch):
    optional(monkeypatch, fused.attention)
    before = kernels.proof.holds.cache_info().misses
    for terms, v in ((TERMS, V), (TERMS, V), (Terms(), V), (Terms(), V.bfloat16())):
        kernels.select("auto", terms, v, True)
    assert kernels.proof.holds.cache_info().misses == before + 3


def test_the_proof_is_given_outside_autograd_and_autocast_too(monkeypatch):
    quick = optional(monkeypatch, fused.attention)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert chosen(training=False) is quick


def test_a_model_says_which_attention_kernel_ran():
    model = model_of("composite", kernel="eager")
    assert kernels_used(model) == []
    model(batch()[0])
    assert kernels_used(model) == ["eager"]

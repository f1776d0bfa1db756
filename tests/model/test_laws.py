"""The laws every position scheme obeys, for all schemes that exist."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import reference
from relpos.errors import RelposError
from relpos.model.position import (
    Absolute,
    Composite,
    CompositeKey,
    Dynamic,
    Fixed,
    Key,
    NoPosition,
    Scheme,
    Sinusoidal,
    Terms,
)
from schemes import SCHEMES, SHAPE, accepts, batch, make, model_of

EVERY = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.__name__)
OUTSIDE = pytest.mark.parametrize("outside", ["clamp", "zero"])
KERNEL = pytest.mark.parametrize("kernel", ["eager", "fused"])


def filled(scheme: type[Scheme], **keys: Any) -> Any:
    """The scheme itself, in float64 and with parameters away from zero."""
    return model_of(scheme, **keys).encoder.position


def terms_of(position: Any, n: int = 7, seed: int = 3) -> Terms:
    q, k = torch.randn(2, 2, SHAPE.heads, n, SHAPE.head_dim, generator=torch.Generator().manual_seed(seed)).double()
    return position.terms(1, q, k, position.prepare(n))


def is_relative(scheme: type[Scheme]) -> bool:
    """Whether β, a and b are all the scheme has."""
    position = filled(scheme)
    terms = terms_of(position)
    return position.embed(4) is None and terms.dense is None and (terms.offset, terms.query, terms.key) != (None,) * 3


RELATIVE = pytest.mark.parametrize("scheme", [s for s in SCHEMES if is_relative(s)], ids=lambda scheme: scheme.__name__)
WINDOWED = pytest.mark.parametrize("scheme", [s for s in SCHEMES if accepts(s, "outside")], ids=lambda scheme: scheme.__name__)


def test_discovery_finds_the_schemes() -> None:
    assert {Absolute, Composite, CompositeKey, Dynamic, Fixed, Key, NoPosition, Sinusoidal} <= set(SCHEMES)


@EVERY
def test_every_scheme_has_a_reference(scheme: type[Scheme]) -> None:
    assert scheme.__name__ in reference.TERMS


@EVERY
@OUTSIDE
@pytest.mark.parametrize("scaled", [True, False])
def test_definition_outputs_and_gradients_equal_the_loops(scheme: type[Scheme], outside: str, scaled: bool) -> None:
    if not accepts(scheme, "outside") and (outside, scaled) != ("clamp", True):
        pytest.skip("the scheme has no window")
    if not accepts(scheme, "scaled") and not scaled:
        pytest.skip("nothing to scale")
    ids, mask, types = [7, 9, 5, 22, 0, 12], [True] * 4 + [False, True], [0, 0, 1, 1, 0, 1]
    weight = torch.randn(6, SHAPE.hidden, generator=torch.Generator().manual_seed(5)).double()
    weight[4] = 0
    expected: list[Tensor] = []
    for kernel in (None, "eager", "fused"):
        model = model_of(scheme, kernel or "eager", outside=outside, scaled=scaled).eval()
        if kernel is None:
            hidden = reference.encode(model.encoder, ids, mask, types)
        else:
            hidden = model.encoder(torch.tensor([ids]), torch.tensor([mask]), torch.tensor([types]))[0]
        (hidden * weight).sum().backward()
        grads = [parameter.grad for parameter in model.encoder.parameters()]
        found = [(hidden * weight.ne(0)).detach(), *(grad for grad in grads if grad is not None)]
        expected = expected or found
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-8)


@RELATIVE
def test_silence_zero_parameters_add_nothing(scheme: type[Scheme]) -> None:
    model, plain = model_of(scheme).eval(), model_of(NoPosition).eval()
    with torch.no_grad():
        for parameter in model.encoder.position.parameters():
            parameter.zero_()
    plain.load_state_dict({name: x for name, x in model.state_dict().items() if ".position." not in name})
    ids, mask = batch()
    assert torch.equal(model(ids, mask), plain(ids, mask))


@RELATIVE
@OUTSIDE
def test_translation_a_shift_inside_the_padding_changes_nothing(scheme: type[Scheme], outside: str) -> None:
    model = model_of(scheme, outside=outside).eval()
    ids, _ = batch(rows=1, n=8)
    left, right = torch.nn.functional.pad(ids, (5, 1)), torch.nn.functional.pad(ids, (2, 4))
    a = model.encoder(left, left.ne(0))[:, 5:13]
    b = model.encoder(right, right.ne(0))[:, 2:10]
    torch.testing.assert_close(a, b, atol=1e-11, rtol=1e-9)


@RELATIVE
def test_direction_reversing_input_and_kernels_reverses_the_output(scheme: type[Scheme]) -> None:
    model = model_of(scheme).eval()
    ids, _ = batch(rows=1)
    forwards = model.encoder(ids)
    with torch.no_grad():
        for parameter in model.encoder.position.parameters():
            parameter.copy_(parameter.flip(-1))
    torch.testing.assert_close(model.encoder(ids.flip(1)).flip(1), forwards, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize(("scheme", "neighbour"), [(Fixed, 1), (Dynamic, 1), (Key, -1)])
def test_direction_the_next_token_stands_in_column_k_plus_1(scheme: type[Scheme], neighbour: int) -> None:
    """β and a: attend to the right neighbour. b: be attended to by it, so attend to the left one."""
    position = scheme(SHAPE, **({"k": 2}))
    with torch.no_grad():
        for parameter in position.parameters():
            parameter.zero_()[..., 3] = 1.0
    x = torch.ones(1, SHAPE.heads, 6, SHAPE.head_dim)
    terms = position.terms(0, x, x, position.prepare(6))
    from relpos.model.kernels.eager import scores

    added = scores(None, None, terms, x)[0, 0]
    assert (added.argmax(1)[1:-1] == torch.arange(1, 5) + neighbour).all()
    assert (added > 0).sum() == 5


def test_order_none_commutes_with_permutations() -> None:
    model = model_of(NoPosition).eval()
    ids, _ = batch(rows=1)
    shuffled = torch.tensor([3, 1, 8, 0, 5, 7, 2, 6, 4])
    torch.testing.assert_close(model.encoder(ids[:, shuffled]), model.encoder(ids)[:, shuffled], atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s is not NoPosition], ids=lambda scheme: scheme.__name__)
def test_order_every_other_scheme_sees_it(scheme: type[Scheme]) -> None:
    model = model_of(scheme).eval()
    ids, _ = batch(rows=1)
    shuffled = torch.tensor([3, 1, 8, 0, 5, 7, 2, 6, 4])
    assert (model.encoder(ids[:, shuffled]) - model.encoder(ids)[:, shuffled]).abs().max() > 1e-4


@EVERY
@KERNEL
def test_padding_is_invisible(scheme: type[Scheme], kernel: str) -> None:
    model = model_of(scheme, kernel).eval()
    ids, mask = batch(n=8)  # row 1 has 5 real tokens
    expected = model.encoder(ids, mask)[1, :5]
    other = ids.clone()
    other[1, 5:], other[0] = 11, 6
    longer = torch.nn.functional.pad(ids, (0, 6), value=3)
    alone = model.encoder(ids[1:, :5])[0]
    for hidden in (
        model.encoder(other, mask)[1, :5],
        model.encoder(longer, torch.nn.functional.pad(mask, (0, 6)))[1, :5],
        alone,
    ):
        torch.testing.assert_close(hidden, expected, atol=1e-11, rtol=1e-9)


@WINDOWED
def test_edge_zero_and_clamp_agree_inside_the_window_only(scheme: type[Scheme]) -> None:
    clamp, zero = (model_of(scheme, outside=outside).eval() for outside in ("clamp", "zero"))
    ids, _ = batch(rows=1)
    torch.testing.assert_close(clamp.encoder(ids[:, :3]), zero.encoder(ids[:, :3]))  # k = 2
    assert (clamp.encoder(ids) - zero.encoder(ids)).abs().max() > 1e-4


@OUTSIDE
@pytest.mark.parametrize(
    ("whole", "parts"), [(Composite, {"offset": Fixed, "query": Dynamic}), (CompositeKey, {"query": Composite, "key": Key})]
)
def test_sum_a_merge_is_its_parts(whole: type[Scheme], parts: dict[str, type[Scheme]], outside: str) -> None:
    position = filled(whole, outside=outside)
    merged = terms_of(position)
    for name, scheme in parts.items():
        part = filled(scheme, outside=outside)
        part.load_state_dict({key: value for key, value in position.state_dict().items() if hasattr(part, key)})
        assert torch.equal(getattr(merged, name), getattr(terms_of(part), name))


@EVERY
def test_count_equals_the_formula(scheme: type[Scheme]) -> None:
    for k in (0, 2, 8):
        position = make(scheme, k=k)(SHAPE)
        assert position.count(SHAPE) == sum(parameter.numel() for parameter in position.parameters())


@EVERY
def test_length_beyond_the_trained_one(scheme: type[Scheme]) -> None:
    model = model_of(scheme).eval()
    ids, _ = batch(rows=1, n=SHAPE.max_positions + 1)
    if model.encoder.position.max_length is None:
        assert model.encoder(ids).isfinite().all()
    else:
        with pytest.raises(RelposError, match=rf"{scheme.__name__} has 16 positions .* 17 tokens") as error:
            model.encoder(ids)
        assert "\n" not in str(error.value)


@EVERY
def test_gradient_in_float64(scheme: type[Scheme]) -> None:
    model = model_of(scheme, layers=1).eval()
    ids, mask = batch(n=5)
    parameters = list(model.encoder.position.parameters())
    if not parameters:
        pytest.skip("nothing to learn")

    def function(*values: Tensor) -> Tensor:
        names = [name for name, _ in model.encoder.named_parameters() if name.startswith("position.")]
        return torch.func.functional_call(model.encoder, dict(zip(names, values, strict=True)), (ids, mask))

    assert torch.autograd.gradcheck(function, [parameter.detach().requires_grad_() for parameter in parameters])


@WINDOWED
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"k": -3}, "k must be 0 or more, not -3"),
        ({"k": "x"}, "k must be a whole number, not 'x'"),
        ({"outside": "clmp"}, "outside must be 'clamp' or 'zero', not 'clmp'. Did you mean 'clamp'?"),
    ],
)
def test_a_wrong_value_is_one_line_with_key_and_value(scheme: type[Scheme], keys: dict[str, Any], message: str) -> None:
    with pytest.raises(RelposError) as error:
        scheme(SHAPE, **keys)
    assert str(error.value) == message

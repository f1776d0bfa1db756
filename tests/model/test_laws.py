"""The laws that every scheme of `position/` and convolution of `conv/` obeys, for all presets.

What more there is to one of them stands in a file of its own.
"""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import reference
from relpos.data.shuffle import mirrored
from relpos.data.steps import MicroBatch
from relpos.errors import RelposError
from relpos.model.kernels import eager, fused
from relpos.model.position import Scheme, Terms
from relpos.model.position.base import Input
from schemes import CONVS, FULL, POSITIONS, SHAPE, batch, given, model_of, node, preset, reads, variants

KERNELS = {"eager": eager, "fused": fused}
EVERY = pytest.mark.parametrize("name", POSITIONS)
SHUFFLED = torch.tensor([3, 1, 8, 0, 5, 7, 2, 6, 4])
WITHOUT_SILENCE = {
    "alibi",  # no parameters
    "alibi_half",
    "alibi_shift",
    "dual_triangle",
    "dual_triangle_split",
    "deberta",  # a scale of its own, and the layer's biases
    "fox",  # half-open gates
    "kerple",  # none that may be zero
    "kerple_power",
}
BLIND = {"none", "alibi", "fire", "kerple", "kerple_power", "window"}  # to direction: T depends on |j − i| alone
WITHOUT_DIRECTION = {"fox"}  # its kernels are sums along the row, from the left


def cases(group: str, names: list[str]) -> list[Any]:
    """Every preset with every variant."""
    return [pytest.param(name, keys, id=f"{name}{keys or ''}") for name in names for keys in variants(group, name)]


def filled(name: str, **keys: Any) -> Any:
    """The scheme itself, in float64 and with parameters away from zero."""
    return model_of(name, **keys).eval().encoder.position


def terms_of(position: Any, n: int = 7, seed: int = 3) -> Terms:
    q, k = torch.randn(2, 2, SHAPE.heads, n, SHAPE.head_dim, generator=torch.Generator().manual_seed(seed)).double()
    return position.terms(1, q, k, position.see(1, given(SHAPE, len(q), n), position.prepare(n)))


def is_relative(name: str) -> bool:
    """Whether β, a, b and turned queries and keys are all the scheme has."""
    position = filled(name)
    terms = terms_of(position)
    return position.embed(4) is None and terms.dense is None and position.max_length is None and position.acts_on_scores


def has_kernels(name: str) -> bool:
    terms = terms_of(filled(name))
    return is_relative(name) and (terms.offset, terms.query, terms.key) != (None,) * 3


RELATIVE = pytest.mark.parametrize("name", [name for name in POSITIONS if is_relative(name)])
KERNELLED = pytest.mark.parametrize("name", [name for name in POSITIONS if has_kernels(name)])
WINDOWED = pytest.mark.parametrize("name", [name for name in POSITIONS if reads("position", name, "outside")])
PAIRS = pytest.mark.parametrize(
    ("name", "conv"),
    [
        (name, conv)
        for name, conv in itertools.product(POSITIONS, CONVS)
        if conv != "none" and (FULL or conv == "depthwise" or name == "composite")
    ],
)


def compare(model_with: Any, kernels: list[str]) -> None:
    """Outputs and gradients of `model_with(kernel)` equal those of the loops; one sequence with a padding token inside."""
    ids, mask, types = [7, 9, 5, 0, 12], [True, True, True, False, True], [0, 0, 1, 0, 1]
    weight = torch.randn(5, SHAPE.hidden, generator=torch.Generator().manual_seed(5)).double()
    weight[3] = 0
    expected: list[Tensor] = []
    for kernel in (None, *kernels):
        model = model_with(kernel or "eager").eval()
        if kernel is None:
            hidden = reference.encode(model.encoder, ids, mask, types)
        else:
            hidden = model.encoder(torch.tensor([ids]), torch.tensor([mask]), torch.tensor([types]))[0]
        (hidden * weight).sum().backward()
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.encoder.parameters()]
        found = [(hidden * weight.ne(0)).detach(), *grads]
        expected = expected or found
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-8)


def serving(name: str, **keys: Any) -> list[str]:
    """The kernels that take this scheme's terms."""
    terms = terms_of(filled(name, **keys))
    return [
        kernel for kernel, module in KERNELS.items() if module.supports(terms, torch.ones(1, 1, 1, 1, dtype=torch.float64), False)
    ]


def test_discovery_finds_the_presets() -> None:
    assert {"absolute", "composite", "composite_key", "dynamic", "fixed", "key", "none", "sinusoidal"} <= set(POSITIONS)
    assert "none" in CONVS


@pytest.mark.parametrize(("name", "keys"), cases("position", POSITIONS))
def test_definition_outputs_and_gradients_equal_the_loops(name: str, keys: dict[str, Any]) -> None:
    compare(lambda kernel: model_of(name, kernel=kernel, **keys), serving(name, **keys))


@pytest.mark.parametrize(("conv", "keys"), cases("conv", CONVS))
def test_definition_of_the_convolutions(conv: str, keys: dict[str, Any]) -> None:
    compare(lambda kernel: model_of("none", conv, kernel=kernel, conv_keys=keys), ["fused"])


@PAIRS
def test_definition_of_pairs(name: str, conv: str) -> None:
    """A pair that means nothing is refused in one line that names both. RELPOS_FULL=1 tries all pairs."""
    try:
        model_of(name, conv)
    except RelposError as error:
        message = str(error)
        assert "\n" not in message
        assert all(class_of(group, option) in message for group, option in (("position", name), ("conv", conv)))
    else:
        compare(lambda kernel: model_of(name, conv, kernel=kernel, layers=1), ["auto"])


def class_of(group: str, name: str) -> str:
    return str(node(group, name)["_target_"]).rpartition(".")[2]


@KERNELLED
def test_silence_zero_parameters_add_nothing(name: str) -> None:
    if name in WITHOUT_SILENCE:
        pytest.skip("nothing to set to zero")
    model, plain = model_of(name).eval(), model_of("none").eval()
    with torch.no_grad():
        for parameter in model.encoder.position.parameters():
            parameter.zero_()
    plain.load_state_dict({key: x for key, x in model.state_dict().items() if ".position." not in key})
    ids, mask = batch()
    assert torch.equal(model(ids, mask), plain(ids, mask))


@RELATIVE
@pytest.mark.parametrize("outside", ["clamp", "zero"])
def test_translation_a_shift_inside_the_padding_changes_nothing(name: str, outside: str) -> None:
    model = model_of(name, outside=outside).eval()
    ids, _ = batch(rows=1, n=8)
    left, right = torch.nn.functional.pad(ids, (5, 1)), torch.nn.functional.pad(ids, (2, 4))
    a = model.encoder(left, left.ne(0))[:, 5:13]
    b = model.encoder(right, right.ne(0))[:, 2:10]
    torch.testing.assert_close(a, b, atol=1e-11, rtol=1e-9)


class Reversed(Scheme):
    """Another scheme whose kernels are read from right to left."""

    def __init__(self, scheme: Scheme) -> None:
        super().__init__(scheme.shape)
        self.scheme = scheme

    def prepare(self, n: int) -> Any:
        return self.scheme.prepare(n)

    @property
    def scale(self) -> float | None:
        return self.scheme.scale

    def turn(self, layer: int, q: Tensor, k: Tensor, v: Tensor, state: Any) -> tuple[Tensor, Tensor, Tensor]:
        return self.scheme.turn(layer, q, k, v, state)

    def split(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.scheme.split(layer, q, k, v)

    def see(self, layer: int, given: Input, state: Any) -> Any:
        return self.scheme.see(layer, given, state)

    def terms(self, layer: int, q: Tensor, k: Tensor, state: Any) -> Terms:
        terms = self.scheme.terms(layer, q, k, state)
        terms = terms.multiplied() if terms.columns is None else terms.by_offset()
        flipped = {key: None if (x := getattr(terms, key)) is None else x.flip(-1) for key in ("offset", "query", "key")}
        value = None if terms.value is None else terms.value.flip(0)
        return Terms(**flipped, value=value, outside=terms.outside, columns=terms.columns, reach=terms.reach)


@KERNELLED
def test_direction_reversing_input_and_kernels_reverses_the_output(name: str) -> None:
    if name in WITHOUT_DIRECTION:
        pytest.skip("kernels of the reversed input are others")
    model = model_of(name).eval()
    ids, _ = batch(rows=1)
    forwards = model.encoder(ids)
    model.encoder.position = Reversed(model.encoder.position)
    torch.testing.assert_close(model.encoder(ids.flip(1)).flip(1), forwards, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize(("name", "neighbour"), [("fixed", 1), ("dynamic", 1), ("key", -1)])
def test_direction_the_next_token_stands_in_column_k_plus_1(name: str, neighbour: int) -> None:
    """β and a: attend to the right neighbour. b: be attended to by it, so attend to the left one."""
    position = preset("position", name)(SHAPE)
    with torch.no_grad():
        for parameter in position.parameters():
            parameter.zero_()[..., 3] = 1.0
    x = torch.ones(1, SHAPE.heads, 6, SHAPE.head_dim)
    added = eager.scores(None, None, position.terms(0, x, x, position.prepare(6)), x)[0, 0]
    assert (added.argmax(1)[1:-1] == torch.arange(1, 5) + neighbour).all()
    assert (added > 0).sum() == 5


def test_order_none_commutes_with_permutations() -> None:
    model = model_of("none").eval()
    ids, _ = batch(rows=1)
    torch.testing.assert_close(model.encoder(ids[:, SHUFFLED]), model.encoder(ids)[:, SHUFFLED], atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize(
    ("position", "conv"),
    [(name, "none") for name in POSITIONS if name != "none"] + [("none", conv) for conv in CONVS if conv != "none"],
)
def test_order_everything_else_sees_it(position: str, conv: str) -> None:
    model = model_of(position, conv).eval()
    ids, _ = batch(rows=1)
    assert (model.encoder(ids[:, SHUFFLED]) - model.encoder(ids)[:, SHUFFLED]).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("position", "conv"), [(name, "none") for name in POSITIONS] + [("none", conv) for conv in CONVS if conv != "none"]
)
def test_mirror_reversing_the_row_reverses_the_output_of_those_that_see_distance_alone(position: str, conv: str) -> None:
    """Row 1 has padding, which stays at the right."""
    model = model_of(position, conv).eval()
    ids, mask = batch()
    rows = MicroBatch(ids, mask.bool(), ids)
    reversed_rows = mirrored(rows)
    there, back = (model.encoder(part.input_ids, part.attention_mask) for part in (rows, reversed_rows))
    back = torch.stack([mirrored(replace(rows, input_ids=column)).input_ids for column in back.unbind(-1)], -1)
    apart = ((there - back) * mask[:, :, None]).abs().amax((1, 2))
    if position in BLIND and conv == "none":
        assert apart.max() < 1e-11
    else:
        assert apart.min() > 1e-4


@pytest.mark.parametrize(
    ("position", "conv", "kernel"),
    [(name, "none", kernel) for name in POSITIONS for kernel in serving(name)]
    + [("none", conv, kernel) for conv in CONVS if conv != "none" for kernel in KERNELS],
)
def test_padding_is_invisible(position: str, conv: str, kernel: str) -> None:
    model = model_of(position, conv, kernel=kernel).eval()
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
def test_edge_zero_and_clamp_agree_inside_the_window_only(name: str) -> None:
    clamp, zero = (model_of(name, outside=outside).eval() for outside in ("clamp", "zero"))
    ids, _ = batch(rows=1)
    torch.testing.assert_close(clamp.encoder(ids[:, :3]), zero.encoder(ids[:, :3]))  # k = 2
    assert (clamp.encoder(ids) - zero.encoder(ids)).abs().max() > 1e-4


@pytest.mark.parametrize("outside", ["clamp", "zero"])
@pytest.mark.parametrize(
    ("whole", "parts"),
    [("composite", {"offset": "fixed", "query": "dynamic"}), ("composite_key", {"query": "composite", "key": "key"})],
)
def test_sum_a_composite_is_its_parts(whole: str, parts: dict[str, str], outside: str) -> None:
    position = filled(whole, outside=outside)
    merged = terms_of(position)
    for field, name in parts.items():
        part = filled(name, outside=outside)
        part.load_state_dict({key: value for key, value in position.state_dict().items() if hasattr(part, key)})
        assert torch.equal(getattr(merged, field), getattr(terms_of(part), field))


@pytest.mark.parametrize(("name", "keys"), cases("position", POSITIONS))
def test_count_equals_the_formula(name: str, keys: dict[str, Any]) -> None:
    for dials in ({"k": 0, "kernels": 1}, {"k": 2, "kernels": 2}, {"k": 8, "kernels": 5}):
        position = preset("position", name, **dials, **keys)(SHAPE)
        assert position.count(SHAPE) == sum(parameter.numel() for parameter in position.parameters())


@EVERY
def test_length_beyond_the_trained_one(name: str) -> None:
    model = model_of(name).eval()
    longest = model.encoder.position.max_length
    ids, _ = batch(rows=1, n=(longest or SHAPE.max_positions) + 1)
    if longest is None:
        assert model.encoder(ids).isfinite().all()
    else:
        with pytest.raises(RelposError, match=rf"has {longest} positions .* {longest + 1} tokens") as error:
            model.encoder(ids)
        assert "\n" not in str(error.value)


@EVERY
def test_gradient_in_float64(name: str) -> None:
    model = model_of(name, layers=1).eval()
    ids, mask = batch(n=5)
    parameters = [(key, p) for key, p in model.encoder.named_parameters() if key.startswith("position.")]
    if not parameters:
        pytest.skip("nothing to learn")

    def function(*values: Tensor) -> Tensor:
        names = [key for key, _ in parameters]
        return torch.func.functional_call(model.encoder, dict(zip(names, values, strict=True)), (ids, mask))

    values = [parameter.detach().requires_grad_() for _, parameter in parameters]
    assert torch.autograd.gradcheck(function, values, fast_mode=True)


@WINDOWED
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"k": -3}, "k=-3: a whole number of 0 or more is expected"),
        ({"k": "x"}, "k=x: a whole number of 0 or more is expected"),
        ({"outside": "clmp"}, "outside=clmp: clamp or zero is expected. Did you mean 'clamp'?"),
    ],
)
def test_a_wrong_value_is_one_line_with_key_and_value(name: str, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(RelposError) as error:
        preset("position", name, **keys)(SHAPE)
    assert str(error.value).endswith(message)

"""The laws that every scheme of `position/` and convolution of `conv/` obeys, for all presets.

What more there is to one of them stands in a file of its own.
"""

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import cos, sin
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.testing import assert_close

from relpos.data.shuffle import mirrored
from relpos.data.steps import MicroBatch
from relpos.errors import RelposError
from relpos.model.heads import MaskedLM
from relpos.model.kernels import eager, fused
from relpos.model.position import Scheme, Terms
from schemes import (
    CONVS,
    FULL,
    POSITIONS,
    SAMPLE,
    SHAPE,
    adds_nothing,
    batch,
    cases,
    check_loops,
    check_padding,
    filled,
    given,
    is_counted,
    model_of,
    near,
    node,
    numbers,
    preset,
    reads,
    refusal,
    variants,
)

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
# schemes that do not see direction: T depends on |j − i| alone
BLIND = {"none", "alibi", "fire", "kerple", "kerple_power", "window"}
WITHOUT_REVERSAL = {"fox"}  # its kernels are sums along the row, from the left


def scheme_of(name: str, **keys: Any) -> Any:
    """The scheme itself, in float64 and with parameters away from zero."""
    return model_of(name, **keys).eval().encoder.position


def terms_of(position: Any, n: int = 7, seed: int = 3) -> Terms:
    q, k = numbers(2, 2, SHAPE.heads, n, SHAPE.head_dim, seed=seed)
    return position.terms(1, q, k, position.see(1, given(SHAPE, len(q), n), position.prepare(n)))


@cache
def looked_at(name: str, **keys: Any) -> tuple[Any, Terms]:
    """A scheme and its terms for all that only look; every worker of the tests asks several times
    when it collects them."""
    position = scheme_of(name, **keys)
    return position, terms_of(position)


def is_relative(name: str) -> bool:
    """Whether β, a, b and turned queries and keys are all the scheme has."""
    position, terms = looked_at(name)
    return (
        position.embed(4) is None
        and terms.dense is None
        and position.max_length is None
        and position.acts_on_scores
    )


def windowed(name: str) -> bool:
    return reads("position", name, "outside")


def has_kernels(name: str) -> bool:
    _, terms = looked_at(name)
    return is_relative(name) and (terms.offset, terms.query, terms.key) != (None,) * 3


KERNELLED = pytest.mark.parametrize("name", [*filter(has_kernels, POSITIONS)])
WINDOWED = pytest.mark.parametrize("name", [*filter(windowed, POSITIONS)])
PAIRS = pytest.mark.parametrize(
    ("name", "conv"),
    [
        (name, conv)
        for name, conv in itertools.product(POSITIONS, CONVS)
        if conv != "none"
        and (FULL or (conv == "depthwise" and name in SAMPLE) or name == "composite")
    ],
)


def serving(name: str, **keys: Any) -> list[str]:
    """The kernels that take this scheme's terms."""
    _, terms = looked_at(name, **keys)
    return [
        kernel
        for kernel, module in KERNELS.items()
        if module.supports(terms, torch.ones(1, 1, 1, 1, dtype=torch.float64), False)
    ]


def test_discovery_finds_the_presets():
    assert {
        "absolute",
        "composite",
        "composite_key",
        "dynamic",
        "fixed",
        "key",
        "none",
        "sinusoidal",
    } <= set(POSITIONS)
    assert "none" in CONVS


def equal_the_loops(*models: MaskedLM, gradients: bool = True) -> None:
    """One sequence with a padding token inside and tokens of both types."""
    encoders = [model.eval().encoder for model in models]
    check_loops(*encoders, types=[0, 0, 1, 0, 1], gradients=gradients)


@pytest.mark.parametrize(("name", "keys"), cases("position", POSITIONS))
def test_definition_outputs_and_gradients_equal_the_loops(name, keys):
    kernels = serving(name, **keys) if FULL or name in SAMPLE else ["eager"]
    equal_the_loops(*(model_of(name, kernel=kernel, **keys) for kernel in kernels))


@pytest.mark.parametrize(("conv", "keys"), cases("conv", CONVS))
def test_definition_of_the_convolutions(conv, keys):
    equal_the_loops(model_of("none", conv, kernel="fused", conv_keys=keys))


@PAIRS
def test_definition_of_pairs(name, conv):
    """A pair that means nothing is refused in one line that names both. RELPOS_FULL=1 makes all
    pairs; the loops are those of each convolution with every way into the attention, and of each
    scheme with one convolution."""
    try:
        model = model_of(name, conv, layers=1)
    except RelposError as error:
        message = str(error)
        assert "\n" not in message
        classes = node("position", name)["_target_"], node("conv", conv)["_target_"]
        assert all(target.rpartition(".")[2] in message for target in classes)
        return
    if conv == "depthwise" or name in SAMPLE | {"composite"}:
        equal_the_loops(model, gradients=conv == "depthwise" or name == "composite")


@KERNELLED
def test_silence_zero_parameters_add_nothing(name):
    if name in WITHOUT_SILENCE:
        pytest.skip("nothing to set to zero")
    model = model_of(name)
    filled(model.encoder.position, 0.0)
    adds_nothing(model, model_of("none"), ".position.")


@pytest.mark.parametrize(
    ("name", "outside"),
    [
        (name, outside)
        for name in POSITIONS
        if is_relative(name)
        for outside in ("clamp", "zero")
        if outside == "clamp" or windowed(name)
    ],
)
def test_translation_a_shift_inside_the_padding_changes_nothing(name, outside):
    model = model_of(name, outside=outside).eval()
    ids, _ = batch(rows=1, n=8)
    left, right = pad(ids, (5, 1)), pad(ids, (2, 4))
    a = model.encoder(left, left.ne(0))[:, 5:13]
    b = model.encoder(right, right.ne(0))[:, 2:10]
    near(a, b)


def turned_round(scheme: Scheme) -> Callable[..., Terms]:
    """Its terms, but with kernels that are read from right to left."""
    own = scheme.terms

    def terms(*given: Any) -> Terms:
        terms = own(*given)
        terms = terms.multiplied() if terms.columns is None else terms.by_offset()
        kernels = {name: getattr(terms, name) for name in ("offset", "query", "key")}
        flipped = {name: x.flip(-1) for name, x in kernels.items() if x is not None}
        return replace(terms, **flipped, value=None if terms.value is None else terms.value.flip(0))

    return terms


@KERNELLED
def test_direction_reversing_input_and_kernels_reverses_the_output(name):
    if name in WITHOUT_REVERSAL:
        pytest.skip("kernels of the reversed input are others")
    model = model_of(name).eval()
    ids, _ = batch(rows=1)
    forwards = model.encoder(ids)
    model.encoder.position.terms = turned_round(model.encoder.position)
    near(model.encoder(ids.flip(1)).flip(1), forwards)


def fill(value: float, *parts: Tensor) -> None:
    for part in parts:
        part.fill_(value)


# What makes each token like its right neighbour better than its left one, in a scheme whose
# parameters are all zero.
TO_THE_RIGHT: dict[str, Callable[[Any], object]] = {
    "alibi_shift": lambda _: None,
    "cope": lambda scheme: fill(1, scheme.table[:, 1]),
    "deberta": lambda scheme: fill(1, scheme.norm.weight, scheme.table[scheme.buckets - 1, :3], scheme.own[1].weight[:, 0]),
    "dynamic": lambda scheme: fill(1, scheme.query[..., 3]),
    "fire": lambda scheme: fill(1, scheme.c, scheme.multiplier, scheme.inner, scheme.outer),
    "fixed": lambda scheme: fill(1, scheme.beta[..., 3]),
    "fox": lambda scheme: fill(9, scheme.gate_bias[:, SHAPE.heads :]),
    "huang4": lambda scheme: fill(1, scheme.table[:, SHAPE.max_positions]),
    "inkling": lambda scheme: fill(1, scheme.mix, scheme.profiles[..., scheme.extent + 1]),
    # b: the owner is liked by its left neighbour
    "key": lambda scheme: fill(1, scheme.key[..., 1]),
    "pope": lambda scheme: scheme.shift.copy_(-scheme.exact("wave")),
    "rope": lambda _: None,
    "selective_rope": lambda scheme: (fill(0.2, scheme.down[:, 0]), fill(1, scheme.up[..., 0], scheme.taps[..., 1])),
    "swin": lambda scheme: fill(1, scheme.beta[..., SHAPE.max_positions]),
    "t5": lambda scheme: fill(1, scheme.table[:, 17]),
    "tisa": lambda scheme: fill(1, scheme.amplitude, scheme.sharpness, scheme.centre),
    "tupe_r": lambda scheme: fill(1, scheme.buckets[17]),
    "xl": lambda scheme: fill(-1, scheme.weight[..., 0]),  # of the sine of i − j
}  # fmt: skip
KEYS: dict[str, dict[str, Any]] = {"fire": {"sign": True}, "deberta": {"share": False}}


@pytest.mark.parametrize("name", TO_THE_RIGHT)
def test_direction_a_positive_offset_is_one_to_the_right(name):
    """It fails where a sign is turned round in code and loops alike. All tokens are the same;
    rotated, the query of one fits the key half a turn of the first angle further to the right."""
    scheme, n = filled(preset("position", name, **KEYS.get(name, {}))(SHAPE), 0.0), 5
    with torch.no_grad():
        TO_THE_RIGHT[name](scheme)
    same = torch.ones(1, SHAPE.heads, n, SHAPE.head_dim, dtype=torch.float64)
    q, k = (
        same * torch.tensor([cos(angle), sin(angle)] * (SHAPE.head_dim // 2))
        for angle in (0.0, -0.5)
    )
    state = scheme.see(
        1, given(SHAPE, 1, n)._replace(x=torch.ones(1, n, SHAPE.hidden).double()), scheme.prepare(n)
    )
    turned_q, turned_k, _ = scheme.turn(1, q, k, same, state)
    scores = eager.scores(
        turned_q * scheme.scale, turned_k, scheme.terms(1, q, k, state), turned_q
    )[0]
    assert (scores[:, 2, 3] > scores[:, 2, 1] + 1e-3).all()


def test_order_none_commutes_with_permutations():
    model = model_of("none").eval()
    ids, _ = batch(rows=1)
    near(model.encoder(ids[:, SHUFFLED]), model.encoder(ids)[:, SHUFFLED])


@pytest.mark.parametrize("name", sorted(BLIND - {"none"}))
def test_order_changes_schemes_that_see_distance_alone(name):
    """All other schemes see order by the law of the mirror: a reversal is a permutation."""
    model = model_of(name).eval()
    ids, _ = batch(rows=1)
    assert (model.encoder(ids[:, SHUFFLED]) - model.encoder(ids)[:, SHUFFLED]).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("position", "conv", "keys"),
    [(name, "none", keys) for name in POSITIONS for keys in variants("position", name)]
    + [("none", conv, {}) for conv in CONVS if conv != "none"],
)
def test_mirror_reversing_the_row_reverses_the_output_of_those_that_see_distance_alone(
    position, conv, keys
):
    """Row 1 has padding, which stays at the right."""
    model = model_of(position, conv, **keys).eval()
    ids, mask = batch()
    rows = MicroBatch(ids, mask.bool(), ids)
    reversed_rows = mirrored(rows)
    there, back = (
        model.encoder(part.input_ids, part.attention_mask) for part in (rows, reversed_rows)
    )
    back = torch.stack(
        [mirrored(replace(rows, input_ids=column)).input_ids for column in back.unbind(-1)], -1
    )
    apart = ((there - back) * mask[:, :, None]).abs().amax((1, 2))
    if position in BLIND and conv == "none" and not keys.get("sign"):
        assert apart.max() < 1e-11
    else:
        assert apart.min() > 1e-4


@pytest.mark.parametrize(
    ("position", "conv", "kernel"),
    [
        (name, "none", kernel)
        for name in POSITIONS
        for kernel in serving(name)
        if FULL or name in SAMPLE or kernel == "eager"
    ]
    + [
        ("none", conv, kernel)
        for conv in CONVS
        for kernel in KERNELS
        if conv != "none" and (FULL or kernel == "fused")
    ],
)
def test_padding_is_invisible(position, conv, kernel):
    check_padding(model_of(position, conv, kernel=kernel).eval().encoder)


@WINDOWED
def test_edge_zero_and_clamp_agree_inside_the_window_only(name):
    clamp, zero = (model_of(name, outside=outside).eval() for outside in ("clamp", "zero"))
    ids, _ = batch(rows=1)
    assert_close(clamp.encoder(ids[:, :3]), zero.encoder(ids[:, :3]))  # k = 2
    assert (clamp.encoder(ids) - zero.encoder(ids)).abs().max() > 1e-4


@pytest.mark.parametrize("outside", ["clamp", "zero"])
@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        ("composite", {"offset": "fixed", "query": "dynamic"}),
        ("composite_key", {"query": "composite", "key": "key"}),
    ],
)
def test_sum_a_composite_is_its_parts(whole, parts, outside):
    position = scheme_of(whole, outside=outside)
    merged = terms_of(position).multiplied()
    for field, name in parts.items():
        part = scheme_of(name, outside=outside)
        part.load_state_dict(
            {key: value for key, value in position.state_dict().items() if hasattr(part, key)}
        )
        assert torch.equal(getattr(merged, field), getattr(terms_of(part).multiplied(), field))


@pytest.mark.parametrize(("name", "keys"), cases("position", POSITIONS))
def test_count_equals_the_formula(name, keys):
    for dials in ({"k": 0, "kernels": 1}, {"k": 2, "kernels": 2}, {"k": 8, "kernels": 5}):
        assert is_counted(preset("position", name, **dials, **keys)(SHAPE))


@EVERY
def test_length_beyond_the_trained_one(name):
    model = model_of(name).eval()
    longest = model.encoder.position.max_length
    ids, _ = batch(rows=1, n=(longest or SHAPE.max_positions) + 1)
    if longest is None:
        assert model.encoder(ids).isfinite().all()
    else:
        message = refusal(model.encoder, ids)
        assert re.search(rf"has {longest} positions .* {longest + 1} tokens", message)


@EVERY
def test_gradient_in_float64(name):
    model = model_of(name, layers=1).eval()
    ids, mask = batch(n=5)
    parameters = [
        (key, p) for key, p in model.encoder.named_parameters() if key.startswith("position.")
    ]
    if not parameters:
        pytest.skip("nothing to learn")

    def function(*values: Tensor) -> Tensor:
        names = [key for key, _ in parameters]
        return torch.func.functional_call(
            model.encoder, dict(zip(names, values, strict=True)), (ids, mask)
        )

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
def test_a_wrong_value_is_one_line_with_key_and_value(name, keys, message):
    assert refusal(lambda: preset("position", name, **keys)(SHAPE)).endswith(message)

"""Positions and offsets that training draws: which, from what, and what of them a network sees."""

from functools import partial
from typing import Any

import pytest
import torch

import schemes
from relpos.counter import fold
from relpos.model.dropout import RecordedKeys, seed_dropout
from relpos.model.position import (
    T5,
    XL,
    Absolute,
    Alibi,
    Dynamic,
    Fire,
    Floater,
    Kerple,
    Merge,
    NoPosition,
    Pope,
    Position,
    Randomized,
    Rope,
    Sinusoidal,
    Tisa,
    Tupe,
)
from schemes import SHAPE, SIZE, VOCABULARY, batch, build, check_loops, near, refusal

CPU = torch.device("cpu")
N = SHAPE.max_positions
ASK_POSITIONS: list[Position] = [Absolute, Sinusoidal, Rope, Pope]
ASK_OFFSETS: list[Position] = [Alibi, T5, Tisa, Kerple, partial(Fire, sign=True), XL]


def network(position: Position) -> Any:
    """An encoder without dropout, in evaluation."""
    return schemes.network(position, spread=0.3, dropout=0.0, attention_dropout=0.0).eval().encoder


def randomized(parts: list[Position], **keys: Any) -> Position:
    return partial(Randomized, parts=parts, **keys)


@pytest.mark.parametrize("part", ASK_POSITIONS + ASK_OFFSETS)
def test_outputs_equal_the_loops_at_the_numbers_drawn(part):
    check_loops(network(randomized([part], length=40)))


def of_one_batch(drawn: Any, plain: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The outputs of an encoder that draws for a scheme and of one that has the scheme itself, with
    the same weights."""
    weights = plain.state_dict().items()
    drawn.load_state_dict({key.replace("position.", "position.parts.0."): x for key, x in weights})
    ids, mask = batch()
    return drawn(ids, mask), plain(ids, mask)


@pytest.mark.parametrize("part", ASK_POSITIONS + ASK_OFFSETS)
@pytest.mark.parametrize("training", [True, False])
def test_a_subset_of_all_numbers_is_the_scheme_itself(part, training):
    drawn, plain = (
        network(position).train(training) for position in (randomized([part], length=N), part)
    )
    torch.testing.assert_close(*of_one_batch(drawn, plain), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("part", ASK_POSITIONS)
def test_evaluation_does_not_shift(part):
    shape = {"max_positions": 40} if part is Absolute else {}
    drawn, plain = (
        build(SIZE | keys, position, VOCABULARY).eval().encoder
        for keys, position in (({}, randomized([part], length=40, draw="shift")), (shape, part))
    )
    assert torch.equal(*of_one_batch(drawn, plain))


def drawn(scheme: Any, seed: int, n: int = N) -> list[int]:
    seed_dropout(scheme, seed)
    return scheme.positions(n, CPU).tolist()  # type: ignore[no-any-return]


def test_a_subset_is_that_of_the_smallest_hashes_in_order():
    scheme = Randomized(SHAPE, [Rope], length=50)
    for seed in range(3):
        numbers = sorted(range(50), key=lambda number: fold(fold(seed, 0, 0), number))
        assert drawn(scheme, seed) == sorted(numbers[:N])
    assert (
        drawn(scheme.eval(), 1)
        == drawn(scheme, 2)
        == sorted(sorted(range(50), key=lambda number: fold(0, number))[:N])
    )


@pytest.mark.parametrize(("draw", "expected"), [("subset", N / 20), ("shift", 1 / 5)])
def test_each_draw_is_as_likely_as_any_other(draw, expected):
    """Each of 20 numbers in a subset of 16; each of the shifts 0 … 4."""
    scheme = Randomized(SHAPE, [Rope], length=20, draw=draw)
    draws = [drawn(scheme, seed) for seed in range(2000)]
    seen = [sum(number in row for row in draws) for number in range(20)]
    if draw == "shift":
        assert all(row == list(range(row[0], row[0] + N)) for row in draws)
        seen = [sum(row[0] == shift for row in draws) for shift in range(5)]
    assert all(abs(count / 2000 - expected) < 0.04 for count in seen)


@pytest.mark.parametrize("draw", ["subset", "shift"])
def test_shorter_sequences_have_the_first_of_the_same_numbers(draw):
    scheme = Randomized(SHAPE, [Rope], length=50, draw=draw)
    assert drawn(scheme, 3, 5) == drawn(scheme, 3)[:5]
    assert len(set(drawn(scheme, 3, 50))) == 50


def outputs(encoder: Any, seed: int, rows: slice = slice(None), width: int = 9) -> torch.Tensor:
    """The outputs of a training pass of some rows of two, padded to some width."""
    ids, mask = (torch.nn.functional.pad(x, (0, 3))[rows, :width] for x in batch())
    seed_dropout(encoder.train(), seed)
    return encoder(ids, mask)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "position",
    [randomized([Absolute, Rope]), randomized([Alibi]), randomized([Rope], draw="shift")],
)
def test_training_depends_on_the_seed_of_the_step_and_not_on_how_the_step_is_cut(position):
    """So it does not depend on the number of processes, each of which takes some examples."""
    encoder = network(position)
    whole = outputs(encoder, 5)
    near(outputs(encoder, 5, slice(1, 2), 12)[0, :6], whole[1, :6])
    if position.keywords.get("draw") != "shift":  # type: ignore[attr-defined]  # the scores of Rope do not see a shift
        assert (outputs(encoder, 6) - whole).abs().max() > 1e-3


@pytest.mark.parametrize("draw", ["subset", "shift"])
def test_recorded_keys_draw_what_seeds_draw(draw):
    scheme, keys = Randomized(SHAPE, [Rope], length=50, draw=draw), RecordedKeys(CPU)
    for seed in (7, 8):
        keys.fill(seed)
        seed_dropout(scheme, keys)  # type: ignore[arg-type]
        recorded = scheme.positions(N, CPU).tolist()
        assert recorded == drawn(scheme, seed)


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (Dynamic, "Dynamic asks for neither"),
        (Tupe, "Tupe asks for neither"),
        (Floater, "Floater asks for neither"),
        (NoPosition, "no part asks for them"),
        (
            partial(Merge, parts=[Absolute, Alibi]),
            "Absolute asks for positions, Alibi asks for offsets",
        ),
    ],
)
def test_parts_that_ask_for_no_or_two_kinds_of_numbers_are_refused(part, reason):
    message = f"Randomized draws positions or offsets, and {reason}"
    assert refusal(randomized([part]), SHAPE) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            randomized([Alibi], draw="shift"),
            "draw=shift moves positions, and Alibi asks for offsets, which stay",
        ),
        (randomized([Rope], length=9), "length=9: size.max_positions=16 or more is expected"),
    ],
)
def test_impossible_draws_are_refused_in_one_line(make, message):
    assert refusal(make, SHAPE) == message

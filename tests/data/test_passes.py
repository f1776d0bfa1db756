"""How examples are spread over forward passes."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relpos.data.passes import FULL, MULTIPLE, PADDED, Shapes, passes, share


@settings(deadline=None, max_examples=100)
@given(
    lengths=st.lists(st.integers(1, 128), min_size=1, max_size=80),
    room=st.sampled_from([1, 128, 2048]),
)
def test_every_example_goes_through_once_and_no_pass_is_too_full(lengths, room):
    parts = [part.tolist() for part in passes(torch.tensor(lengths), room)]
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    assert all(
        len(part) == 1 or len(part) * max(lengths[row] for row in part) <= room for part in parts
    )


def test_short_examples_are_not_padded_to_the_length_of_long_ones():
    parts = passes(torch.tensor([16] * 20 + [128] * 2), 2048)
    assert [len(part) for part in parts] == [2, 20]


def test_a_little_padding_costs_less_than_a_pass():
    assert len(passes(torch.tensor([16] * 8 + [24] * 8), 2048)) == 1


@settings(deadline=None, max_examples=100)
@given(
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=60),
    room=st.sampled_from([1, 300, 8000]),
)
def test_without_padding_real_tokens_fill_a_pass(lengths, room):
    rows = torch.tensor(lengths)
    parts = passes(rows, room, padding=False)
    assert sorted(torch.cat(parts).tolist()) == list(range(len(lengths)))
    for part, following in zip(
        parts, [*parts[1:], torch.tensor([], dtype=torch.int64)], strict=True
    ):
        real, longest = int(rows[part].sum()), int(rows[part].max())
        assert len(part) == 1 or (real <= room and len(part) * longest <= PADDED * room)
        if len(following):  # the next example had no place
            more = real + int(rows[following[0]])
            assert more > room or (len(part) + 1) * (longest + MULTIPLE) > PADDED * room


def test_the_longest_examples_go_first():
    lengths = torch.tensor([5, 90, 40, 128, 7])
    assert torch.cat(passes(lengths, 128)).tolist() == [3, 1, 2, 4, 0]


def test_no_process_always_gets_the_longest_examples():
    assert [share(8, rank, 3).tolist() for rank in range(3)] == [[0, 5, 6], [1, 4, 7], [2, 3]]


@settings(deadline=None, max_examples=100)
@given(
    lengths=st.lists(st.integers(1, 100), min_size=1, max_size=60),
    room=st.sampled_from([1, 300, 8000]),
)
def test_passes_of_fixed_shapes_compute_every_real_token_once_within_the_room(lengths, room):
    rows = torch.tensor(lengths)
    parts = list(Shapes.of(torch.tensor([3, 40, 70]), 100, room).deal(rows))
    assert sorted(row for part, _, _ in parts for row in part.tolist()) == list(range(len(lengths)))
    for part, n, held in parts:
        # where they cannot be even, some passes have one row more
        assert len(part) == 1 or len(part) * n <= room + n
        real = torch.arange(n) < rows[part][:, None]
        assert int(real.sum()) == int(rows[part].sum())
        if held is not None:
            assert len(held.unique()) == len(held) <= FULL * len(part) * n + 64
            chosen = (
                torch.zeros(len(part) * n, dtype=torch.bool)
                .index_fill(0, held, True)
                .view(len(part), n)
            )
            assert torch.equal(held, chosen.flatten().nonzero().squeeze(1))
            assert bool((chosen >= real).all())
            assert bool((chosen.int().diff(dim=1) <= 0).all())  # of each row the first ones


def test_rows_without_padding_are_computed_whole():
    assert [(len(part), n, held) for part, n, held in Shapes.of(torch.full((9,), 64), 64, 640).deal(torch.full((20,), 64))] == [
        (10, 64, None), (10, 64, None),
    ]  # fmt: skip

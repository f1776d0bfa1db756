"""Books that are in a text twice are in it once afterwards."""

import random

from relpos.data.hub import BLOCK, without_repeats


def book(seed: int, rows: int) -> list[str]:
    draw = random.Random(seed)
    return [
        " ".join(f"{draw.choice('bdfgklmnprst')}a{draw.randrange(1000)}" for _ in range(12))
        for _ in range(rows)
    ]


def test_different_books_stay_whole():
    text = book(0, 2300) + book(1, 1700)
    assert list(without_repeats(text)) == text


def test_a_second_copy_of_a_book_is_left_out_but_for_its_edges():
    first, second, third = book(0, 4300), book(1, 3100), book(2, 2700)
    text = list(without_repeats(first + second + first + third))
    assert text[:7400] == first + second
    assert set(third) <= set(text)
    assert len(text) - len(first + second + third) <= 2 * BLOCK


def test_short_rows_that_many_books_share_do_not_make_copies_of_them():
    text = [row for n in range(4) for long in book(n, 1000) for row in (long, "he nodded .")]
    assert list(without_repeats(text)) == text


def test_a_text_of_short_rows_stays_as_it_is():
    text = ["yes .", "no ."] * 2000
    assert list(without_repeats(text)) == text

"""Layouts of plain text are told apart and brought to paragraphs."""

import random
import re
import textwrap

import pytest

from relpos.data.documents import (
    HEADING,
    PORTION,
    TITLE,
    UNKNOWN,
    documents_of,
    portions,
    wrapped_at,
)

TEXT = "the old man and his dog walked along the river until they came to a bridge of grey stone where nobody was"
WORDS = TEXT.split()


def paragraphs(count: int) -> list[str]:
    """Paragraphs of different lengths, each of one sentence."""
    return [
        " ".join(WORDS[(i + j) % len(WORDS)] for j in range(15 + 7 * (i % 5))) + f" {i}."
        for i in range(count)
    ]


def read(text: str, portion: int = 997) -> list[tuple[str, list[str]]]:
    """Sources and paragraphs, the text handed over in blocks of whole lines."""
    blocks, block = [], ""
    for line in text.splitlines(keepends=True):
        block += line
        if len(block) > portion:
            blocks.append(block)
            block = ""
    documents = documents_of("x.txt", iter([*blocks, block]))
    return [
        (document.source, [line.strip() for line in document.lines if line.strip()])
        for document in documents
    ]


@pytest.mark.parametrize(
    ("between", "width"),
    [("\n", 999), ("\n\n", 999), ("\n\n", 60)],
    ids=["lines", "apart", "wrapped"],
)
def test_a_paragraph_is_a_line_or_lines_up_to_an_empty_one(between, width):
    text = between.join(textwrap.fill(paragraph, width) for paragraph in paragraphs(60))
    assert read(text) == [("x.txt", paragraphs(60))]


def test_short_sentences_a_line_are_not_wrapped_text():
    assert wrapped_at([f"the {a} sees the {b} ." for a in WORDS for b in WORDS]) is None


def test_wrapped_lines_without_empty_lines_lose_no_word_and_end_where_a_line_is_short():
    text = "\n".join(textwrap.fill(paragraph, 60) for paragraph in paragraphs(200))
    [(_, joined)] = read(text)
    assert " ".join(joined) == " ".join(paragraphs(200))
    assert len(joined) > 100


def test_the_licence_is_cut():
    text = "A story.\n*** END OF THE PROJECT GUTENBERG EBOOK ***\nYou may copy it.\n"
    assert read(text) == [("x.txt", ["A story."])]


def test_after_a_licence_another_book_may_start():
    text = "One.\n*** END OF THIS PROJECT\nNo.\n*** START OF THIS PROJECT\nTwo.\n"
    assert read(text) == [("x.txt", ["One.", "Two."])]


@pytest.mark.parametrize(
    "line",
    [
        "*** END OF PART ONE ***",
        "***END OF ACT I***",
        "*** END OF THE PROJECT ***",
        "*** START OF PART TWO ***",
        "*** END OF THE LINE",
    ],
)
def test_other_lines_of_asterisks_are_text(line):
    assert read(f"One.\n{line}\nTwo.\n") == [("x.txt", ["One.", line, "Two."])]


@pytest.mark.parametrize("line", [" = Title = ", "= A =", " = A = B = \n", "= a = =", "= 1 = 2 ="])
def test_titles_are_recognised(line):
    assert TITLE.match(line)
    assert HEADING.match(line)


@pytest.mark.parametrize(
    "line",
    ["== A ==", " = = A = = ", "= =", "=  =", "= A", "A =", "  = A =", "= A =  ", "= A =\nB"],
)
def test_other_lines_are_no_titles(line):
    assert not TITLE.match(line)


WIKITEXT = """ \n = First <unk> = \n \n A well @-@ known town of 3 @,@ 000 . \n \n = = History = = \n \n It is <unk> .
 = 3 = \n \n = Second = \n \n Another . \n"""


def test_a_title_starts_a_document_headings_are_dropped_and_wikitext_is_untokenised():
    assert read(WIKITEXT) == [
        ("x.txt#1", ["A well-known town of 3,000 .", f"It is {UNKNOWN} ."]),
        ("x.txt#2", ["Another ."]),
    ]


@pytest.mark.parametrize("text", ["", "\n\n \n"])
def test_an_empty_file_is_one_document_without_paragraphs(text):
    assert read(text) == [("x.txt", [])]


def test_copies_of_an_article_with_other_unknown_words_have_one_fingerprint():
    def prints(text: str) -> list[list[str]]:
        documents = documents_of("x", iter([text]))
        return [[*map(document.fingerprint, document.lines)] for document in documents]

    assert prints(WIKITEXT) == prints(WIKITEXT.replace("town", "<unk>"))


def test_empty_paragraphs_do_not_gather_in_memory():
    assert [len(portion) for portion in portions([""] * PORTION + ["One."])] == [
        2 * (PORTION - 1),
        4,
    ]


TITLES = re.compile(r"^ ?= (?!=)(.*[^= ].*) = ?$"), re.compile(r"^ ?=( =)* .*= ?$")
"""Titles and headings as they are defined; these take the square of a line's length."""


def test_titles_and_headings_are_matched_in_linear_time():
    chance = random.Random(0)
    for _ in range(20_000):
        inside = "".join(chance.choices(" =ab", k=chance.randint(0, 9)))
        before = chance.choice(["", " ", "= ", " = ", "= = "])
        line = before + inside + chance.choice(["", " ", " =", " = ", "= ="])
        for pattern, definition in zip((TITLE, HEADING), TITLES, strict=True):
            assert bool(pattern.match(line)) == bool(definition.match(line))
    for long in (
        "= " * 500_000,
        " = a" + " " * 1_000_000,
        " = = " * 200_000 + "x",
        "=" * 1_000_000,
    ):
        read(f"{long}\n")
        HEADING.match(long)

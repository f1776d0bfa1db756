"""A stream of lines -> documents of paragraphs, for the four ways in which plain text is laid out;
and paragraphs -> sentences.

| layout   | recognised by                                             | document      | paragraph                |
|----------|-----------------------------------------------------------|---------------|--------------------------|
| wikitext | a first line ` = Title = `                                | from a title  | a line; headings dropped |
| wrapped  | lines that end where the next word would not have fitted  | the file      | up to an empty line      |
| ragged   | the same, without empty lines                             | the file      | up to a line cut short   |
| lines    | anything else: a sentence or a paragraph a line           | the file      | a line                   |

The beginning of a file decides for the file. From Project Gutenberg's line `*** END OF THE PROJECT
GUTENBERG EBOOK` on comes its licence: it is cut, up to the next `*** START OF THE PROJECT GUTENBERG
EBOOK` or the end.

Sentences are those of sentencex (English rules, in Rust). Its version is recorded in the manifest
of a store (`splitter`) and is not part of a run's identity: where a text has a store, a newer
version that splits some sentences differently makes no other one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, dropwhile, groupby, islice, pairwise, tee

import numpy as np

# No part of these patterns matches in two ways, or the time would be the square of a line's length.
TITLE = re.compile(r"^ ?= (?!=)(?=[= ]*[^= ]).* = ?$")  # a level-1 heading of WikiText
HEADING = re.compile(r"^ ?= .*= ?$")  # any heading of WikiText
# The line's end: a long title may have been wrapped.
LICENCE = re.compile(r"^\*\*\* ?END OF (?:THE|THIS) PROJECT(?: GUTENBERG|$)", re.MULTILINE)
BEGIN = re.compile(r"^\*\*\* ?START OF (?:THE|THIS) PROJECT(?: GUTENBERG|$)", re.MULTILINE)
PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
UNKNOWN = "\ue000"  # of the private use area: in no text, kept by normalisation
HEAD = 100_000  # characters that decide on the layout
ENDS = ".!?:;\"'”’)"  # of a sentence or of direct speech
LONGEST = 1 << 16  # characters of a paragraph that is not yet at its end
PORTION = 1 << 18  # characters split into sentences at a time


@dataclass
class Document:
    """One document: where it is from and its paragraphs, to be read once and before the next
    document is asked for.

    `fingerprint` maps a paragraph to the text that is compared between documents: documents of
    equal fingerprints are held out together or not at all.
    """

    source: str
    lines: Iterator[str]
    fingerprint: Callable[[str], str] = str


def documents_of(name: str, blocks: Iterator[str]) -> Iterator[Document]:
    """The documents in a stream of blocks of whole lines. `name` is the file's; RelposError from
    the blocks."""
    # The licence is cut first: it is wrapped by hand, and a short file of one sentence a line would
    # be taken for wrapped text.
    blocks = _without_licence(blocks)
    beginning: list[str] = []
    size = 0
    for block in blocks:
        beginning.append(block)
        size += len(block)
        if size >= HEAD:
            break
    blocks = chain(beginning, blocks)
    head = "".join(beginning)[:HEAD]
    # Without the last line: cut off at HEAD, it would look like one that was ended early.
    lines = (head[: head.rfind("\n") + 1] or head).split("\n")
    if has_title(lines):
        yield from _articles(name, blocks)
        return
    width = wrapped_at(lines)
    body = lines[len(lines) // 10 :]
    paragraphs: Iterator[str]
    if width is None:
        paragraphs = (line for block in blocks for line in block.split("\n"))
    # Empty lines separate paragraphs, and not only chapter headings: at least one line in 40.
    elif 40 * sum(not line.strip() for line in body) > len(body):
        paragraphs = (part.replace("\n", " ") for part in _wrapped(blocks))
    else:
        paragraphs = _ragged(blocks, width)
    yield Document(name, paragraphs)


def has_title(lines: Iterable[str]) -> bool:
    """Whether the first line that is not empty is a level-1 heading of WikiText."""
    return bool(TITLE.match(next(filter(str.strip, lines), "")))


def wrapped_at(lines: list[str]) -> int | None:
    """The width at which lines were wrapped by hand; None where they were not.

    Wrapped means: many lines follow a line on which their first word would not have fitted, few
    lines are long, and most do not end a sentence. (In 131 novels 0.42 or more of the places
    against 0.32 at most.)
    """
    bare = [line.strip() for line in lines]
    full = [line for line in bare if line]
    follows = [
        (len(a), len(a) + 1 + len(b.split(None, 1)[0])) for a, b in pairwise(bare) if a and b
    ]
    long = sum(len(line) > 120 for line in full)
    ended = sum(line[-1] in ENDS for line in full)
    if len(full) < 20 or len(follows) < 10 or 20 * long > len(full) or 2 * ended > len(full):
        return None
    end, next_end = np.asarray(follows).T
    share, width = max(
        (np.mean((end <= width + 2) & (next_end > width - 3)), width) for width in range(40, 121)
    )
    return width if share > 0.37 else None


def _without_licence(blocks: Iterator[str]) -> Iterator[str]:
    """The blocks without Project Gutenberg's licence."""
    inside = False
    for block in blocks:
        # Hardly any block has three asterisks, and looking for them takes a small part of the
        # regular expression's time.
        if not inside and ("***" not in block or not LICENCE.search(block)):
            yield block
            continue
        lines = []
        for line in block.splitlines(keepends=True):
            begins = BEGIN.match(line)
            inside = bool(LICENCE.match(line)) or (inside and not begins)
            if not (inside or begins):
                lines.append(line)
        yield "".join(lines)


def _articles(name: str, blocks: Iterator[str]) -> Iterator[Document]:
    """WikiText's articles. A title stands between empty lines; ` = 3 = ` within a paragraph's table
    does not."""
    lines_of_text = (line for block in blocks for line in block.removesuffix("\n").split("\n"))
    previous, current, following = tee(chain([""], lines_of_text, [""]), 3)
    around = zip(previous, islice(current, 1, None), islice(following, 2, None), strict=False)
    number = 0
    for is_title, lines in groupby(
        around,
        lambda line: not line[0].strip() and bool(TITLE.match(line[1])) and not line[2].strip(),
    ):
        if is_title:
            continue
        article = dropwhile(lambda line: not line.strip(), (line for _, line, _ in lines))
        if first := next(article, ""):
            number += 1
            paragraphs = _without_headings(chain([first], article))
            yield Document(f"{name}#{number}", paragraphs, _shape)
            deque(paragraphs, maxlen=0)  # skips what the reader did not read of it


def _without_headings(lines: Iterator[str]) -> Iterator[str]:
    """Drops headings, and undoes WikiText's ` @-@ `, ` @,@ `, ` @.@ ` inside words and numbers. Its
    <unk> becomes a character for which no tokenizer has a piece, so that it is encoded as one
    unknown id and not as five pieces of text."""
    for line in lines:
        if HEADING.match(line):
            continue
        if "@" in line:
            line = line.replace(" @-@ ", "-").replace(" @,@ ", ",").replace(" @.@ ", ".")
        yield line.replace("<unk>", UNKNOWN)


def _shape(paragraph: str) -> str:
    """The number of words. WikiText-2 and -103 hold the same articles with other rare words made
    <unk>, and this is what the two have in common: the copies of an article fall on one side of the
    held-out split."""
    return str(len(paragraph.split()))


def _wrapped(blocks: Iterator[str]) -> Iterator[str]:
    """Paragraphs between empty lines."""
    tail = ""  # the last paragraph, which the next block may continue
    for block in blocks:
        parts = PARAGRAPH.split(tail + block)
        tail = parts.pop()
        yield from parts
        # A file without empty lines would otherwise grow in memory, and be split again with each
        # block.
        if len(tail) > LONGEST:
            whole, _, tail = tail.rpartition("\n")
            yield whole
    yield tail


def _ragged(blocks: Iterator[str], width: int) -> Iterator[str]:
    """Paragraphs that end with a line on which the next word would have fitted, or before an
    indented one."""
    paragraph: list[str] = []  # lines
    room = 0
    for block in blocks:
        for line in block.split("\n"):
            words = line.split(None, 1)
            # At most 1,000 lines: text without short or indented lines would be one paragraph in
            # memory.
            if (
                not words
                or (paragraph and (len(words[0]) < room or line[0] in " \t"))
                or len(paragraph) > 1000
            ):
                yield " ".join(paragraph)
                paragraph = []
            if words:
                paragraph.append(line.strip())
                room = width - 4 - len(line)
    yield " ".join(paragraph)


def split(text: str) -> list[str]:
    """The sentences of paragraphs, which empty lines separate; no sentence crosses one. Blanks at
    both ends are stripped."""
    import sentencex

    return [sentence for part in sentencex.segment("en", text) if (sentence := part.strip())]


def portions(paragraphs: Iterable[str]) -> Iterator[str]:
    """Paragraphs gathered into texts of about PORTION characters, empty lines between them: what
    `split` reads."""
    portion: list[str] = []
    size = 0
    for paragraph in paragraphs:
        portion.append(paragraph)
        size += len(paragraph)
        if size >= PORTION or len(portion) >= PORTION:  # empty paragraphs take memory, too
            yield "\n\n".join(portion)
            portion, size = [], 0
    if size:
        yield "\n\n".join(portion)


def with_progress(
    documents: Iterable[Document],
    progress: Callable[[int], None],
) -> Iterator[Document]:
    """The documents; `progress` is called with the characters of them that are read, now and
    then."""

    def counted(lines: Iterator[str]) -> Iterator[str]:
        size = 0
        for line in lines:
            size += len(line) + 1
            if size >= PORTION:
                progress(size)
                size = 0
            yield line
        progress(size)

    for document in documents:
        yield replace(document, lines=counted(document.lines))

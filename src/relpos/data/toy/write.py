"""Writes the toy language: `corpus/*.txt`, a document each, and `glue/TASK/{train,dev,test}.tsv` in
GLUE's layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from relpos.data.toy import corpus, tasks
from relpos.data.toy.events import Chance
from relpos.data.toy.grammar import spelled
from relpos.data.toy.tasks import Item, fair
from relpos.files import opened, remove, replacing_folder

# raise it when the written bytes change: it stands in the identity of every run on this data
VERSION = 1
DOCUMENT = 100  # pairs
EVALUATION = 500  # items of a dev and of a test file

Row = list[str]
Task = Callable[[Chance, str], Item]


def write(folder: Path, seed: int = 0, pairs: int = 30_000, items: int = 4_000) -> None:
    """Fills `folder` with a corpus of `pairs` sentence pairs and nine tasks of `items` train items
    each.

    A document is its pairs one after the other, one sentence a line. The bytes depend on the
    arguments only.

    Raises:
        RelposError: the disk is full; `corpus` and `glue` are each whole or absent.
    """
    for part in ("corpus", "glue"):
        remove(folder / part)  # of a start that was killed
    with replacing_folder(folder / "corpus") as place:
        write_corpus(place, seed, pairs)
    with replacing_folder(folder / "glue") as place:
        for name, (task, layout) in TASKS.items():
            for part, count in (("train", items), ("dev", EVALUATION), ("test", EVALUATION)):
                _write_rows(
                    place / name / f"{part}.tsv",
                    layout(part, _items(task, seed, name, part, count)),
                )
        _write_mnli(place / "MNLI", seed, items)


def write_corpus(folder: Path, seed: int, pairs: int) -> None:
    """Documents of `DOCUMENT` pairs, and one that lists the forms of every word."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_lines(folder / "words.txt", corpus.word_list())
    for start in range(0, pairs, DOCUMENT):
        chance = Chance(seed, "corpus", start)
        drawn = [corpus.pair(chance) for _ in range(min(DOCUMENT, pairs - start))]
        lines = [spelled(sentence) for pair in drawn for sentence in pair]
        _write_lines(folder / f"document-{start // DOCUMENT:04}.txt", lines)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def _items(task: Task, seed: int, name: str, part: str, count: int) -> list[Item]:
    chance = Chance(seed, name, part)
    return [task(chance, part) for _ in range(count)]


def _write_rows(path: Path, rows: Iterable[Row]) -> None:
    _write_lines(path, ("\t".join(row) for row in rows))


def _numbered(items: list[Item]) -> list[Row]:
    return [[str(n), *item.sentences] for n, item in enumerate(items)]


def _cola(part: str, items: list[Item]) -> list[Row]:
    if part == "test":
        return [["index", "sentence"], *_numbered(items)]
    stars = {"1": "", "0": "*"}
    return [["toy", item.label, stars[item.label], *item.sentences] for item in items]


def _sst2(part: str, items: list[Item]) -> list[Row]:
    if part == "test":
        return [["index", "sentence"], *_numbered(items)]
    return [["sentence", "label"], *([*item.sentences, item.label] for item in items)]


def _mrpc(part: str, items: list[Item]) -> list[Row]:
    if part == "test":
        first, firsts = "index", [str(n) for n in range(len(items))]
    else:
        first, firsts = "Quality", [item.label for item in items]
    numbered = zip(firsts, enumerate(items), strict=True)
    rows = [
        [value, str(2 * n + 1), str(2 * n + 2), *item.sentences] for value, (n, item) in numbered
    ]
    return [[first, "#1 ID", "#2 ID", "#1 String", "#2 String"], *rows]


def _stsb(part: str, items: list[Item]) -> list[Row]:
    head = [
        "index",
        "genre",
        "filename",
        "year",
        "old_index",
        "source1",
        "source2",
        "sentence1",
        "sentence2",
    ]
    rows = [
        [n, "toy", "toy", "2021", n, "none", "none", *sentences]
        for n, *sentences in _numbered(items)
    ]
    return _labelled(part, head, rows, "score", items)


def _qqp(part: str, items: list[Item]) -> list[Row]:
    if part == "test":
        return [["id", "question1", "question2"], *_numbered(items)]
    rows = [
        [str(n), str(2 * n + 1), str(2 * n + 2), *item.sentences] for n, item in enumerate(items)
    ]
    return _labelled(
        part, ["id", "qid1", "qid2", "question1", "question2"], rows, "is_duplicate", items
    )


def _two_sentences(first: str, second: str, part: str, items: list[Item]) -> list[Row]:
    """QNLI, RTE and WNLI, with the names of their columns."""
    return _labelled(part, ["index", first, second], _numbered(items), "label", items)


def _labelled(part: str, head: Row, rows: list[Row], label: str, items: list[Item]) -> list[Row]:
    """The header and the rows, with the label as the last column unless the part is test."""
    if part == "test":
        return [head, *rows]
    return [[*head, label], *([*row, item.label] for row, item in zip(rows, items, strict=True))]


def _mnli(genre: str, labels: int, items: list[Item]) -> list[Row]:
    """`labels` annotators' columns, all in agreement, and the gold label; 0 for test."""
    parses = ["binary_parse", "parse"]
    head = [
        "index",
        "promptID",
        "pairID",
        "genre",
        *(f"sentence{s}_{parse}" for parse in parses for s in (1, 2)),
    ]
    head += ["sentence1", "sentence2"]
    gold = 0
    if labels:
        head += [*(f"label{n}" for n in range(1, labels + 1)), "gold_label"]
        gold = labels + 1
    return [head] + [
        [
            str(n),
            str(n),
            f"{n}{genre[0]}",
            genre,
            "",
            "",
            "",
            "",
            *item.sentences,
            *[item.label] * gold,
        ]
        for n, item in enumerate(items)
    ]


def _write_mnli(folder: Path, seed: int, items: int) -> None:
    matched, mismatched = tasks.mnli, tasks.mnli_mismatched
    _write_rows(
        folder / "train.tsv", _mnli("animals", 1, _items(matched, seed, "MNLI", "train", items))
    )
    for name, genre, task in (
        ("matched", "animals", matched),
        ("mismatched", "workers", mismatched),
    ):
        for part, labels in (("dev", 5), ("test", 0)):
            drawn = _items(task, seed, f"MNLI {name}", part, EVALUATION)
            _write_rows(folder / f"{part}_{name}.tsv", _mnli(genre, labels, drawn))


TASKS: dict[str, tuple[Task, Callable[[str, list[Item]], list[Row]]]] = {
    "CoLA": (fair(tasks.cola), _cola),
    "SST-2": (tasks.sst2, _sst2),
    "MRPC": (fair(tasks.mrpc), _mrpc),
    "STS-B": (tasks.stsb, _stsb),
    "QQP": (tasks.qqp, _qqp),
    "QNLI": (fair(tasks.qnli), partial(_two_sentences, "question", "sentence")),
    "RTE": (fair(tasks.rte), partial(_two_sentences, "sentence1", "sentence2")),
    "WNLI": (fair(tasks.wnli), partial(_two_sentences, "sentence1", "sentence2")),
}
FOLDERS = (*TASKS, "MNLI")

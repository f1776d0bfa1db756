"""Writes the toy language: `corpus/*.txt`, a document each, and `glue/TASK/{train,dev,test}.tsv` in
GLUE's layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from relpos.data.toy import corpus, tasks
from relpos.data.toy.events import Chance
from relpos.data.toy.grammar import spelled
from relpos.data.toy.tasks import Item, fair
from relpos.files import opened, remove, replacing_folder

DOCUMENT = 100  # pairs
EVALUATION = 500  # items of a dev and of a test file

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
        remove(folder / part)  # the remains of a killed start
    with replacing_folder(folder / "corpus") as place:
        write_corpus(place, seed, pairs)
    with replacing_folder(folder / "glue") as place:
        for name, stream, part, task, layout in _files():
            chance, count = Chance(seed, stream, part), EVALUATION
            if part == "train":
                count = items
            drawn = (task(chance, part) for _ in range(count))
            _write_lines(place / f"{name}.tsv", _rows(layout, drawn))


def _files() -> Iterator[tuple[str, str, str, Task, str]]:
    """Of each file its name, the name of the stream of its draws, its part, task and layout."""
    for name, (task, labelled, test) in TASKS.items():
        for part, layout in (("train", labelled), ("dev", labelled), ("test", test)):
            yield f"{name}/{part}", name, part, task, layout
    yield "MNLI/train", "MNLI", "train", tasks.mnli, _mnli(1, "animals")
    for name, task, genre in MNLI:
        for part, labels in (("dev", 5), ("test", 0)):
            yield f"MNLI/{part}_{name}", f"MNLI {name}", part, task, _mnli(labels, genre)


def write_corpus(folder: Path, seed: int, pairs: int) -> None:
    """Documents of `DOCUMENT` pairs, and one that lists the forms of every word."""
    _write_lines(folder / "words.txt", corpus.word_list())
    for start in range(0, pairs, DOCUMENT):
        chance = Chance(seed, "corpus", start)
        numbers = range(min(DOCUMENT, pairs - start))
        lines = (spelled(sentence) for _ in numbers for sentence in corpus.pair(chance))
        _write_lines(folder / f"document-{start // DOCUMENT:04}.txt", lines)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def _rows(layout: str, items: Iterable[Item]) -> Iterator[str]:
    """A row for each item. A layout has `name=cell` for each column; without a name there is no
    header line."""
    names, cells = zip(*(column.split("=") for column in layout.split("|")), strict=True)
    if any(names):
        yield "\t".join(names)
    for n, item in enumerate(items):
        values = {
            "n": n,
            "odd": 2 * n + 1,
            "even": 2 * n + 2,
            "label": item.label,
            "mark": "*" * (item.label == "0"),
            "a": item.sentences[0],
            "b": item.sentences[-1],
        }
        yield "\t".join(cells).format(**values)


def _mnli(labels: int, genre: str) -> str:
    """The layout of a file with so many annotators' columns, all in agreement, and the gold label;
    0 for test."""
    layout = (
        f"index={{n}}|promptID={{n}}|pairID={{n}}{genre[0]}|genre={genre}|sentence1_binary_parse=|"
        "sentence2_binary_parse=|sentence1_parse=|sentence2_parse=|sentence1={a}|sentence2={b}"
    )
    if labels:
        layout += "".join(f"|label{number}={{label}}" for number in range(1, labels + 1))
        layout += "|gold_label={label}"
    return layout


_ONE = "index={n}|sentence={a}"
_TWO = "index={n}|sentence1={a}|sentence2={b}"
_MRPC = "#1 ID={odd}|#2 ID={even}|#1 String={a}|#2 String={b}"
_STSB = (
    "index={n}|genre=toy|filename=toy|year=2021|old_index={n}|source1=none|source2=none|"
    "sentence1={a}|sentence2={b}"
)
_QQP = "qid1={odd}|qid2={even}|question1={a}|question2={b}|is_duplicate={label}"
_QNLI = "index={n}|question={a}|sentence={b}"
TASKS: dict[str, tuple[Task, str, str]] = {
    "CoLA": (fair(tasks.cola), "=toy|={label}|={mark}|={a}", _ONE),
    "SST-2": (tasks.sst2, "sentence={a}|label={label}", _ONE),
    "MRPC": (fair(tasks.mrpc), f"Quality={{label}}|{_MRPC}", f"index={{n}}|{_MRPC}"),
    "STS-B": (tasks.stsb, f"{_STSB}|score={{label}}", _STSB),
    "QQP": (tasks.qqp, f"id={{n}}|{_QQP}", "id={n}|question1={a}|question2={b}"),
    "QNLI": (fair(tasks.qnli), f"{_QNLI}|label={{label}}", _QNLI),
    "RTE": (fair(tasks.rte), f"{_TWO}|label={{label}}", _TWO),
    "WNLI": (fair(tasks.wnli), f"{_TWO}|label={{label}}", _TWO),
}
"""Folder → how an item is drawn, and the layouts of the files with labels and of the test file."""
MNLI = ("matched", tasks.mnli, "animals"), ("mismatched", tasks.mnli_mismatched, "workers")
FOLDERS = (*TASKS, "MNLI")

"""Length generalisation tasks: answers, lengths, what is held out, and how they become examples."""

from collections import Counter
from pathlib import Path

import pytest
import torch

from relpos.data.length_tasks import Copy, LengthTask, Parity, Recall, Reverse, Sort
from relpos.data.store import Store, write_store
from relpos.data.tokenizer import Tokenizer, train_tokenizer
from relpos.data.toy.events import Chance
from relpos.errors import RelposError
from relpos.trust import instantiate

TASKS = (Copy, Reverse, Sort, Parity, Recall)


def naive(name: str, question: str) -> str:
    """The answer, letter by letter."""
    if name == "recall":
        *pairs, asked = question.split(" ")
        return {pairs[n]: pairs[n + 1] for n in range(0, len(pairs), 2)}[asked]
    symbols, answer = list(question.replace(" ", "")), ""
    if name == "parity":
        odd = False
        for bit in symbols:
            odd ^= bit == "1"
        return "01"[odd]
    while symbols:
        place = {"copy": 0, "reverse": len(symbols) - 1, "sort": min(range(len(symbols)), key=lambda n: ord(symbols[n]))}[name]
        answer += symbols.pop(place)
    return " ".join(answer)


def lines(task: LengthTask) -> list[str]:
    """Question, answer, question, …"""
    return [line for document in task.documents() for line in document.lines if not line.endswith(".")]


@pytest.mark.parametrize("kind", TASKS)
def test_answers_are_those_of_a_naive_count(kind: type[LengthTask]) -> None:
    task = kind(examples=300)
    drawn = [" ".join(part) for _ in range(100) for part in task.draw(Chance(0), "test", range(11, 21))]
    text = [*lines(task), *drawn]
    assert [naive(task.name, question) for question in text[::2]] == text[1::2]
    assert len(text) == 800


@pytest.mark.parametrize("kind", TASKS)
def test_no_question_of_a_test_stands_in_the_text(kind: type[LengthTask]) -> None:
    task, chance = kind(longest=4, examples=2000), Chance(1)
    tests = {" ".join(task.draw(chance, "test", range(1, 5))[0]) for _ in range(300)}
    assert len(tests) > 1
    assert not tests & set(lines(task)[::2])


def test_questions_of_recall_are_pairs_and_a_key() -> None:
    chance, recall = Chance(0), Recall()
    assert [len(recall.question(chance, length)) for length in (1, 2, 5, 10)] == [3, 3, 5, 11]


def test_lengths_are_uniform() -> None:
    counts = Counter(len(question.split()) for question in lines(Reverse(examples=5000))[::2])
    assert sorted(counts) == list(range(1, 11))
    assert all(400 < count < 600 for count in counts.values())


def test_keys_of_a_recall_are_all_different() -> None:
    for question in lines(Recall(longest=26, examples=500))[::2]:
        *pairs, asked = question.split()
        assert len(set(pairs[::2])) == len(pairs) // 2
        assert asked in pairs[::2]


def test_text_depends_on_the_arguments_alone() -> None:
    assert lines(Copy(examples=150)) == lines(Copy(examples=250))[:300]
    assert lines(Copy(examples=150)) != lines(Copy(examples=150, seed=1))


@pytest.mark.parametrize("kind", TASKS)
def test_every_symbol_is_a_token_and_an_example_a_pair(kind: type[LengthTask], tmp_path: Path) -> None:
    task = kind(longest=6, examples=400)
    train_tokenizer(task.documents(), tmp_path, 30_004, task.sample, 1)
    tokenizer = Tokenizer.load(tmp_path)
    write_store(task.documents(), tokenizer, tmp_path / "store", task.heldout, 1)
    store, written = Store(tmp_path / "store"), lines(task)
    known = {f"[CLS] {q} [SEP] {a} [SEP]" for q, a in zip(written[::2], written[1::2], strict=True)}
    read = []
    for split in ("train", "heldout"):
        examples = store.examples(split)
        assert len(examples)
        ids, lengths = examples.batch(torch.arange(len(examples)))
        read += [tokenizer.decode_marked(row) for row in ids]
        assert lengths.tolist() == [len(text.split()) for text in read[-len(ids) :]]
    assert len(read) == 400
    assert set(read) == known


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(RelposError, match=r"data.longest=27: a whole number from 4 to 26 is expected"):
        instantiate({"_target_": "relpos.data.length_tasks.Recall", "longest": 27}, "data")
    with pytest.raises(RelposError, match="data=sort: it has no GLUE tasks"):
        Sort().glue_location()

"""The toy language: the same bytes from the same seed, no shortcut to a label, and nothing held out
in the corpus."""

import re
from collections import Counter
from collections.abc import Callable
from errno import ENOSPC
from hashlib import sha256
from importlib import import_module
from math import sqrt
from pathlib import Path
from typing import IO

import pytest

from relpos.data.documents import documents_of
from relpos.data.table import read_table
from relpos.data.textfile import blocks
from relpos.data.toy import VERSION, corpus, lexicon, tasks
from relpos.data.toy.events import Chance, key, part_of
from relpos.data.toy.grammar import grammatical, spelled
from relpos.data.toy.tasks import Item, Versions, fair
from relpos.data.toy.write import write
from relpos.errors import RelposError

ORDER: dict[str, Versions] = {
    "cola": tasks.cola,
    "rte": tasks.rte,
    "mrpc": tasks.mrpc,
    "qnli": tasks.qnli,
    "wnli": tasks.wnli,
}
BAG: dict[str, Callable[[Chance, str], Item]] = {
    "sst2": tasks.sst2,
    "qqp": tasks.qqp,
    "stsb": tasks.stsb,
    "mnli": tasks.mnli,
    "mnli_mm": tasks.mnli_mismatched,
}
# The share of labels that the best single word gets right. SST-2: a word of praise is in all good
# reviews and in half as many bad ones.
BEST_WORD = {"sst2": 2 / 3, "qqp": 1 / 2, "stsb": 1 / 4, "mnli": 1 / 3, "mnli_mm": 1 / 3}
LEMMA = {
    form: forms[0]
    for forms in lexicon.paradigms()
    if forms[0] in lexicon.PEOPLE + lexicon.VERBS
    for form in forms
}
MNLI = (
    "index,promptID,pairID,genre,sentence1_binary_parse,sentence2_binary_parse,sentence1_parse,"
    "sentence2_parse,sentence1,sentence2"
)
HEADER = {  # GLUE's own
    "MRPC/train": "Quality,#1 ID,#2 ID,#1 String,#2 String",
    "MRPC/test": "index,#1 ID,#2 ID,#1 String,#2 String",
    "SST-2/dev": "sentence,label",
    "SST-2/test": "index,sentence",
    "CoLA/test": "index,sentence",
    "STS-B/dev": "index,genre,filename,year,old_index,source1,source2,sentence1,sentence2,score",
    "QQP/train": "id,qid1,qid2,question1,question2,is_duplicate",
    "QQP/test": "id,question1,question2",
    "QNLI/train": "index,question,sentence,label",
    "RTE/dev": "index,sentence1,sentence2,label",
    "WNLI/test": "index,sentence1,sentence2",
    "MNLI/train": f"{MNLI},label1,gold_label",
    "MNLI/dev_mismatched": f"{MNLI},label1,label2,label3,label4,label5,gold_label",
    "MNLI/test_matched": MNLI,
}


def words(sentence: str) -> list[str]:
    return re.findall(r"\w+|[.,?]", sentence)


def bags(item: Item) -> list[list[str]]:
    """The multiset of words of each segment: all that an encoder without positions can see."""
    return [sorted(words(sentence)) for sentence in item.sentences]


def event_keys(*sentences: str) -> set[str]:
    """The keys of the events that sentences tell."""
    keys = set()
    for sentence in sentences:
        lemmas = [LEMMA.get(word, "") for word in words(sentence)]
        nouns = [word for word in lemmas if word in lexicon.PEOPLE]
        verbs = [word for word in lemmas if word in lexicon.VERBS]
        if len(nouns) == 2 and verbs:
            keys.add(key(nouns[0], verbs[0], nouns[1]))
    return keys


def digest(folder: Path) -> str:
    total = sha256()
    for path in sorted(filter(Path.is_file, folder.rglob("*"))):
        total.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return total.hexdigest()[:16]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("toy")
    write(place, seed=0, pairs=300, items=50)
    return place


def test_the_bytes_are_those_of_this_version(folder):
    """Where this fails the language has changed: raise VERSION and enter the new digest."""
    assert (VERSION, digest(folder)) == (1, "0c5ead486d25cf4f")


def test_another_seed_is_another_text(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("relpos.data.toy.write"), "EVALUATION", 2)
    for seed in (0, 1):
        write(tmp_path / str(seed), seed, pairs=20, items=2)
    assert digest(tmp_path / "0") != digest(tmp_path / "1")


@pytest.mark.parametrize("name", ORDER)
def test_order_tasks_have_both_labels_for_the_same_words(name):
    """So that, given the bag of each segment, the label is a fair coin."""
    chance = Chance(0, "test")
    for part in ("train", "dev", "test"):
        for _ in range(300):
            first, second = ORDER[name](chance, part)
            assert bags(first) == bags(second)
            assert first.label != second.label
            assert first.sentences != second.sentences


@pytest.mark.parametrize("name", ORDER)
def test_the_coin_of_order_tasks_is_fair(name):
    chance, task = Chance(0, "coin"), fair(ORDER[name])
    labels = Counter(task(chance, "dev").label for _ in range(2000))
    assert len(labels) == 2
    assert max(labels.values()) / 2000 < 0.5 + 4 * sqrt(0.25 / 2000)


def test_cola_pairs_a_grammatical_with_an_ungrammatical_sentence():
    chance = Chance(0, "test")
    for _ in range(1000):
        good, bad = tasks.cola(chance, "train")
        assert grammatical(words(good.sentences[0]))
        assert not grammatical(words(bad.sentences[0]))


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("the dogs chase a cat.", True),
        ("often dogs do not chase some big cats.", True),
        ("the cat that dogs chase is chased by the lion.", True),
        ("dogs chase cats because they are angry.", True),
        ("who does the dog chase?", True),
        ("is the cat chased by dogs?", True),
        ("the dogs chases a cat.", False),
        ("the dog chases a cats.", False),
        ("the cat that the dogs chases sleeps.", False),
        ("dogs chase often cats.", False),
        ("dogs chase cats because they is angry.", False),
        ("who do the dog chase?", False),
    ],
)
def test_the_recogniser_tells_sentences_from_other_words(sentence, expected):
    assert grammatical(words(sentence)) is expected


def test_agreement_tells_no_roles_where_roles_decide():
    """Nouns of different number would say, through the verb, which of them acts."""
    chance = Chance(0, "test")
    plurals = {lexicon.plural(noun) for noun in lexicon.PEOPLE}
    for name in ("rte", "mrpc", "qnli", "wnli"):
        for _ in range(200):
            sentence = words(ORDER[name](chance, "train")[0].sentences[name == "qnli"])
            assert sum(word in plurals for word in sentence) in (0, 2)


@pytest.mark.parametrize("name", BAG)
def test_no_single_word_gives_a_label_away(name):
    """For every word of either segment: the share of the most frequent label where it stands,
    within sampling error."""
    chance, task = Chance(0, "test"), BAG[name]
    counts: dict[tuple[int, str], Counter[str]] = {}
    for _ in range(4000):
        item = task(chance, "train")
        for segment, sentence in enumerate(item.sentences):
            for word in set(words(sentence)):
                counts.setdefault((segment, word), Counter())[item.label] += 1
    for place, labels in counts.items():
        count, share = sum(labels.values()), BEST_WORD[name]
        assert max(labels.values()) / count < share + 4.5 * sqrt(share * (1 - share) / count), place


@pytest.mark.parametrize("name", [*ORDER, *BAG])
def test_parts_share_no_event(name):
    task = BAG[name] if name in BAG else fair(ORDER[name])
    for part in ("train", "dev", "test"):
        chance = Chance(0, "test", part)
        for _ in range(200):
            assert {*map(part_of, event_keys(*task(chance, part).sentences))} <= {part}


def test_the_corpus_tells_train_events_in_sentences():
    chance, keys, polarity = Chance(0, "test"), set(), {*lexicon.POSITIVE, *lexicon.NEGATIVE}
    for _ in range(3000):
        pair = corpus.pair(chance)
        assert all(grammatical(sentence) for sentence in pair if not polarity & set(sentence))
        keys |= event_keys(*map(spelled, pair))
    assert len(keys) > 500
    assert {*map(part_of, keys)} == {"train"}


def test_the_reader_sees_one_sentence_a_line(folder):
    """Pairs are sentences 1 + 2, 3 + 4, …: a line joined to the next would put all later pairs out
    of step."""
    files = sorted((folder / "corpus").iterdir())
    assert [path.stem for path in files] == [
        *(f"document-000{number}" for number in range(3)),
        "words",
    ]
    for path in files:
        (document,) = documents_of(path.name, blocks(path))
        lines = [line for line in document.lines if line]
        assert lines == path.read_text(encoding="utf-8").splitlines()
        assert len(lines) % 2 == 0


@pytest.mark.parametrize("name", HEADER)
def test_files_have_glues_own_columns(folder, name):
    table = read_table(folder / "glue" / f"{name}.tsv")
    assert ",".join(table.header) == HEADER[name]
    assert len(table.rows) == (50 if name.endswith("train") else 500)


@pytest.mark.parametrize("part", ["train", "dev"])
def test_the_toy_file_of_cola_has_no_header(folder, part):
    table = read_table(
        folder / "glue" / "CoLA" / f"{part}.tsv", ("source", "label", "mark", "sentence")
    )
    assert set(zip(table.column("mark"), table.column("label"), strict=True)) == {
        ("*", "0"),
        ("", "1"),
    }


def test_a_full_disk_is_reported_in_one_line_and_the_next_try_succeeds(tmp_path, monkeypatch):
    toy = import_module("relpos.data.toy.write")
    monkeypatch.setattr(toy, "EVALUATION", 2)
    opened = toy.opened
    room = iter(range(10))

    def open_while_there_is_room(path: Path, *arguments: str, **options: str) -> IO[str]:
        if next(room, None) is None:
            raise OSError(ENOSPC, "No space left on device")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(toy, "opened", open_while_there_is_room)
    with pytest.raises(
        RelposError, match=r"cannot write .*glue \([\d,]+ MB free\): No space left on device"
    ):
        write(tmp_path, pairs=20, items=2)
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
    room = iter(range(100))
    write(tmp_path, pairs=20, items=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "glue"]
    assert len(list((tmp_path / "glue").iterdir())) == 9

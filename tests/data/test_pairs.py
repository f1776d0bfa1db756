"""Minimal pairs: formats, limits, what is refused, and the embedded language's own."""

import json
from collections import Counter

import pytest

from glue_tasks import write
from relpos.data.pairs import PairFiles, PairItem, ToyPairs, read
from relpos.data.toy.events import Chance
from relpos.data.toy.grammar import grammatical
from relpos.data.toy.pairs import OTHERS, PARADIGMS, SAME_WORDS
from relpos.errors import RelposError


def test_in_text_files_the_bad_sentence_comes_first(tmp_path):
    path = write(
        tmp_path, "agreement.txt", "dogs barks .\ndogs bark .\nthe dog bark .\nthe dog barks .\n"
    )
    assert read(path) == [
        PairItem("agreement", ("dogs bark .", "dogs barks ."), f"{path}, line 1"),
        PairItem("agreement", ("the dog barks .", "the dog bark ."), f"{path}, line 3"),
    ]


def test_json_lines_name_both_sentences_and_their_paradigm(tmp_path):
    first = '{"sentence_good": "Dogs bark.", "sentence_bad": "Dogs barks.", "UID": "agreement"}'
    path = write(tmp_path, "own.jsonl", f'{first}\n{{"sentence_good": "a", "sentence_bad": "b"}}')
    pairs = {pair.paradigm: pair.texts[0] for pair in read(path)}
    assert pairs == {"agreement": "Dogs bark.", "own": "a"}


def test_ewok_compares_two_contexts_of_one_target(tmp_path):
    fields = {
        "Domain": "spatial-relations", "ContextType": "direct", "ContextDiff": "antonym", "TargetDiff": "concept swap",
        "Context1": "The cup is on the box.", "Context2": "The cup is in the box.",
        "Target1": "The cup is seen.", "Target2": "The cup is hidden.",
    }  # fmt: skip
    path = write(tmp_path, "spatial.jsonl", json.dumps(fields))
    texts = ("The cup is on the box. The cup is seen.", "The cup is in the box. The cup is seen.")
    prefixes = ("The cup is on the box. ", "The cup is in the box. ")
    assert read(path) == [PairItem("spatial-relations", texts, f"{path} line 1", prefixes)]


def test_comps_compares_two_concepts_of_one_property(tmp_path):
    fields = {
        "id": 1, "property": "flies", "acceptable_concept": "wren", "unacceptable_concept": "mole", "similarity": 0.2,
        "prefix_acceptable": "A wren", "prefix_unacceptable": "A mole", "property_phrase": "can fly.",
        "negative_sample_type": "random",
    }  # fmt: skip
    path = write(tmp_path, "comps_base.jsonl", json.dumps(fields))
    texts = ("A wren can fly.", "A mole can fly.")
    assert read(path) == [PairItem("comps_base", texts, f"{path} line 1", ("A wren ", "A mole "))]


def test_entity_tracking_has_several_continuations_of_one_text(tmp_path):
    fields = {
        "input_prefix": "Box 0 holds the pen. Box 0 holds",
        "options": [" the pen", " the cup", " the hat"],
        "numops": 2,
    }
    path = write(tmp_path, "regular.jsonl", json.dumps(fields))
    [item] = read(path)
    assert item.paradigm == "regular_2_ops"
    assert item.texts[1] == "Box 0 holds the pen. Box 0 holds the cup"
    assert item.given == (fields["input_prefix"],) * 3


def test_a_folder_is_read_file_by_file_and_other_files_are_left_alone(tmp_path):
    for name in ("LICENSE", "._b.txt", "._b.jsonl"):
        write(tmp_path, name, "MIT")
    (tmp_path / "old.txt").mkdir()
    write(tmp_path, "b.txt", "x y\ny x\n")
    write(tmp_path, "a.jsonl", '{"sentence_good": "a", "sentence_bad": "b"}\n')
    assert [pair.paradigm for pair in PairFiles(tmp_path).pairs()] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("odd.txt", "a\nb\nc\n", "odd.txt, line 3: an odd number of lines"),
        ("empty.txt", "", "empty.txt: the file is empty"),
        ("blank.txt", "a\n\nb\nc\n", "blank.txt, line 2: an empty line"),
        (
            "broken.jsonl",
            '{"sentence_good": "a", "sentence_bad": "b"}\n{',
            "broken.jsonl line 2: not JSON: ",
        ),
        ("deep.jsonl", "[" * 100_000, "deep.jsonl line 1: not JSON: "),
        (
            "half.jsonl",
            '{"sentence_good": "a", "sentence_bad": "\\ud800"}',
            "half.jsonl line 1: not JSON: ",
        ),
        ("list.jsonl", "[1]", "list.jsonl line 1: an object"),
        (
            "other.jsonl",
            '{"question": "a"}',
            "other.jsonl line 1: of no known format; the fields of one are expected: sentence_good "
            "and",
        ),
        (
            "lacking.jsonl",
            '{"sentence_good": "a"}',
            "lacking.jsonl line 1: no text under 'sentence_bad'",
        ),
        (
            "number.jsonl",
            '{"sentence_good": "a", "sentence_bad": 1}',
            "number.jsonl line 1: no text under 'sentence_bad'",
        ),
        (
            "ewok.jsonl",
            '{"Context1": "a", "Context2": "b", "Target1": " "}',
            "ewok.jsonl line 1: no text under 'Target1'",
        ),
        (
            "comps.jsonl",
            '{"prefix_acceptable": "a", "property_phrase": "b"}',
            "comps.jsonl line 1: no text under 'prefix_unacceptable'",
        ),
        (
            "box.jsonl",
            '{"input_prefix": "a", "options": "b"}',
            "box.jsonl line 1: options: 2 to 9 texts are expected",
        ),
        (
            "one.jsonl",
            '{"input_prefix": "a", "options": ["b"], "numops": 0}',
            "one.jsonl line 1: options: 2 to 9 texts are expected",
        ),
        (
            "mixed.jsonl",
            '{"input_prefix": "a", "options": ["b", null]}',
            "mixed.jsonl line 1: options: 2 to 9 texts are expected",
        ),
        (
            "ops.jsonl",
            '{"input_prefix": "a", "options": ["b", "c"], "numops": true}',
            "ops.jsonl line 1: no number under 'numops'",
        ),
    ],
)
def test_a_line_that_holds_no_pair_is_refused_with_its_number(tmp_path, name, content, message):
    with pytest.raises(RelposError) as error:
        PairFiles(write(tmp_path, name, content)).pairs()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_without_pairs_is_refused(tmp_path):
    with pytest.raises(RelposError, match=r"a file \.txt or \.jsonl is expected"):
        PairFiles(tmp_path).pairs()
    with pytest.raises(RelposError, match="no such file or folder"):
        PairFiles(tmp_path / "gone").pairs()


def test_the_limit_takes_some_of_each_paradigm_whatever_their_order(tmp_path):
    lines = [f"b {number}\ng {number}\n" for number in range(20)]
    write(tmp_path, "one.txt", "".join(lines))
    write(tmp_path, "two.txt", "".join(lines[:3]))
    first = PairFiles(tmp_path, limit=5).pairs()
    assert Counter(pair.paradigm for pair in first) == {"one": 5, "two": 3}
    write(tmp_path, "one.txt", "".join(lines[::-1]))
    assert {pair.texts[0] for pair in PairFiles(tmp_path, limit=5).pairs()} == {
        pair.texts[0] for pair in first
    }


def test_files_are_known_by_their_content(tmp_path):
    path = write(tmp_path, "one.txt", "a b\nb a\n")
    before = PairFiles(tmp_path).identity()
    write(tmp_path, "one.txt", "a c b\nb c a\n")
    assert PairFiles(path).identity() != before != PairFiles(tmp_path).identity()


@pytest.mark.parametrize("paradigm", PARADIGMS)
def test_the_grammar_accepts_the_good_sentences_and_none_of_the_bad(paradigm):
    chance = Chance(0, paradigm)
    pairs = [PARADIGMS[paradigm](chance) for _ in range(50)]
    assert all(grammatical(good) for good, _ in pairs)
    assert not any(grammatical(bad) for _, bad in pairs)


@pytest.mark.parametrize("paradigm", PARADIGMS)
def test_paradigms_of_order_hold_the_same_words_and_the_others_do_not(paradigm):
    chance = Chance(1, paradigm)
    same = {
        Counter(good) == Counter(bad)
        for good, bad in (PARADIGMS[paradigm](chance) for _ in range(50))
    }
    assert same == {paradigm in SAME_WORDS}


def test_toy_pairs_cover_every_paradigm_and_are_the_same_each_time():
    pairs = ToyPairs(count=3).pairs()
    assert Counter(pair.paradigm for pair in pairs) == dict.fromkeys(SAME_WORDS | OTHERS, 3)
    assert pairs == ToyPairs(count=3).pairs()
    assert pairs != ToyPairs(seed=1, count=3).pairs()


def test_pairs_of_different_words_have_a_limit_of_their_own(tmp_path):
    lines = [f"dog {n} the .\nThe dog {n} .\ndog {n} .\ncat {n} .\n" for n in range(10)]
    write(tmp_path, "mixed.txt", "".join(lines))
    chosen = PairFiles(tmp_path, limit=4, others=1).pairs()
    assert sorted(pair.has_same_words for pair in chosen) == [False, True, True, True, True]
    assert {pair.has_same_words for pair in PairFiles(tmp_path, limit=4, others=0).pairs()} == {
        True
    }
    assert "others" not in PairFiles(tmp_path, limit=4).identity()
    assert PairFiles(tmp_path, limit=4, others=0).identity()["others"] == 0

"""SuperGLUE's own files: what their rows are, what is refused with file and line, and a fine-tuning on one of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from glue_tasks import task, write
from hosts import host, saved
from published import published
from relpos.cli import main
from relpos.data.glue import Rows, TsvGlue, read
from relpos.errors import RelposError

BOOLQ = {"question": "is it a bird", "passage": "A wren is a bird.", "idx": 0, "label": True}
WSC = {
    "text": "Anna told Ruth that the old cat had seen her.",
    "target": {"span1_text": "the old cat", "span1_index": 4, "span2_text": "her", "span2_index": 9},
    "idx": 0,
    "label": False,
}
MULTIRC: dict[str, Any] = {
    "idx": 0,
    "version": 1.1,
    "passage": {
        "text": "<b>Sent 1: </b>Anna saw a cat.<br><b>Sent 2: </b>It slept.<br>",
        "questions": [
            {
                "question": "Who saw it?",
                "sentences_used": [0],
                "answers": [{"text": "Anna", "idx": 0, "label": 1}, {"text": "the cat", "idx": 1, "label": 0}],
                "idx": 0,
            },
            {"question": "Who slept?", "answers": [{"text": "the cat", "idx": 2, "label": 1}], "idx": 1},
        ],
    },
}


def lines(*objects: Any) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)


def rows(folder: Path, name: str, *objects: Any, split: str = "val") -> Rows:
    write(folder, f"{task(name).folder}/{split}.jsonl", lines(*objects))
    return read(TsvGlue(folder), task(name), split)


def test_boolq_is_a_question_and_a_passage(tmp_path: Path) -> None:
    found = rows(tmp_path, "boolq", BOOLQ, BOOLQ | {"label": False})
    assert (found.sentence_a[0], found.sentence_b, found.labels) == ("is it a bird", ["A wren is a bird."] * 2, [1, 0])
    assert found.groups is None


def test_multirc_has_a_row_for_each_answer_and_a_group_for_each_question(tmp_path: Path) -> None:
    found = rows(tmp_path, "multirc", MULTIRC, MULTIRC)
    assert found.sentence_b == ["Who saw it? Anna", "Who saw it? the cat", "Who slept? the cat"] * 2
    assert {" ".join(text.split()) for text in found.sentence_a} == {"Anna saw a cat. It slept."}
    assert (found.labels, found.groups) == ([1, 0, 1] * 2, [0, 0, 1, 2, 2, 3])


def test_wsc_marks_both_spans_whichever_is_the_first(tmp_path: Path) -> None:
    swapped = {"span1_text": "her.", "span1_index": 9, "span2_text": "Anna", "span2_index": 0}
    found = rows(tmp_path, "wsc", WSC, WSC | {"target": swapped, "label": True})
    assert found.sentence_a == [
        "Anna told Ruth that * the old cat * had seen # her. #",
        "# Anna # told Ruth that the old cat had seen * her. *",
    ]
    assert (found.sentence_b, found.labels) == (None, [0, 1])


def test_wsc_marks_a_span_within_the_other(tmp_path: Path) -> None:
    outer, inner = {"span1_text": "the old cat", "span1_index": 4}, {"span1_text": "cat", "span1_index": 6}
    swapped = [{key.replace("1", "2"): value for key, value in span.items()} for span in (outer, inner)]
    found = rows(tmp_path, "wsc", WSC | {"target": outer | swapped[1]}, WSC | {"target": inner | swapped[0]})
    assert found.sentence_a == [
        "Anna told Ruth that * the old # cat # * had seen her.",
        "Anna told Ruth that # the old * cat * # had seen her.",
    ]


def test_a_test_file_has_no_labels(tmp_path: Path) -> None:
    for name, each in (("boolq", BOOLQ), ("wsc", WSC)):
        assert rows(tmp_path, name, {key: value for key, value in each.items() if key != "label"}, split="test").labels is None
    bare = json.loads(json.dumps(MULTIRC).replace('"label"', '"mark"'))
    found = rows(tmp_path, "multirc", bare, split="test")
    assert found.labels is None
    assert not TsvGlue(tmp_path).has(task("multirc"), "val")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("boolq", '{"question": "a", "passage": "b"}', "line 1: no column 'label'"),
        ("boolq", '{"question": "a", "passage": "b", "label": 2}', "line 1: label '2' is outside the set. Known: false, true."),
        ("boolq", '{"question": "a", "passage": ["b"], "label": true}', "line 1: column 'passage' holds [\"b\"]"),
        ("boolq", "\n", ": the file is empty"),
        ("boolq", "{}\n{", "line 2: not JSON"),
        ("multirc", "{}", "line 1: no object under 'passage'"),
        ("multirc", '{"passage": {"text": "a", "questions": {}}}', "line 1: no list under 'questions'"),
        ("multirc", '{"passage": {"text": "a", "questions": []}}', ": no rows"),
        ("multirc", '{"passage": {"text": "a", "questions": [1]}}', "line 1, question 1: no text under 'question'"),
        (
            "multirc",
            '{"passage": {"text": "a", "questions": [{"question": "b", "answers": [[]]}]}}',
            "question 1: no text under 'text'",
        ),
        ("multirc", lines(MULTIRC).replace('"label": 0', '"label": null'), "line 1: column 'label' holds null"),
        ("wsc", '{"text": "a b", "target": []}', "line 1: no object under 'target'"),
        ("wsc", lines(WSC).replace("9", "10"), "line 1: span2_index=10: the text has 10 words"),
        ("wsc", lines(WSC).replace("9", "true"), "line 1: no number under 'span2_index'"),
    ],
)
def test_what_is_wrong_in_superglue_is_named_with_its_line(tmp_path: Path, name: str, content: str, said: str) -> None:
    path = write(tmp_path, f"{task(name).folder}/val.jsonl", content if content != "{}\n{" else lines(BOOLQ) + "{")
    with pytest.raises(RelposError) as caught:
        read(TsvGlue(tmp_path), task(name), "val")
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named_by_the_name_that_superglue_gives_it(tmp_path: Path) -> None:
    with pytest.raises(RelposError, match=r"no GLUE file .*WSC/val\.jsonl"):
        read(TsvGlue(tmp_path), task("wsc"), "val")


@pytest.mark.parametrize("name", ["boolq", *(pytest.param(name, marks=pytest.mark.full) for name in ("multirc", "wsc"))])
def test_superglue_is_fine_tuned(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = saved(host("RobertaModel", vocab_size=300), published("roberta", tmp_path / "network"))
    examples = {"boolq": [BOOLQ, BOOLQ | {"label": False}], "multirc": [MULTIRC], "wsc": [WSC, WSC | {"label": True}]}[name]
    for split in ("train", "val", "test"):
        write(tmp_path, f"{task(name).folder}/{split}.jsonl", lines(*examples * 4))
    sizes = ["steps=2", "batch=4", "length=16"]
    assert main(["finetune", f"task={name}", f"network={network}", "data=files", f"data.glue={tmp_path}", *sizes]) == 0
    run = Path(capsys.readouterr().out.strip())
    metrics = json.loads((run / "record.json").read_text())["metrics"]
    parts = metrics["parts"].get(name, {})
    assert metrics["columns"][name] == pytest.approx(sum(parts.values()) / len(parts) if parts else metrics["columns"][name])
    assert set(parts) == ({"f1", "exact_match"} if name == "multirc" else set())
    predicted = (run / "predictions" / f"{task(name).folder}.tsv").read_text().splitlines()[1:]
    assert {line.split("\t")[1] for line in predicted} <= set(task(name).labels or ())

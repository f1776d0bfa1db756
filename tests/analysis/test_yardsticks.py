"""The formats of public yardsticks, scored against the definition as float64 loops over the fields of their files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from relpos.data.pairs import PairFiles, PairItem
from relpos.data.tokenizer import CLS, MASK, SEP, Tokenizer
from relpos.errors import RelposError
from relpos.measures.kinds.pairs import minimal_pairs
from relpos.model.heads import MaskedLM
from schemes import FULL, model_of

NOUNS = ("cat", "dog", "teacher", "horse")
Fields = dict[str, Any]


def sentence(chance: np.random.Generator) -> str:
    first, second = chance.choice(NOUNS, 2, replace=False)
    return f"the {first} {chance.choice(['sees', 'chases', 'follows'])} the {second} ."


def blimp(chance: np.random.Generator) -> Fields:
    return {"sentence_good": sentence(chance), "sentence_bad": sentence(chance)}


def ewok(chance: np.random.Generator) -> Fields:
    return {key: sentence(chance) for key in ("Context1", "Context2", "Target1", "Target2")} | {"Domain": "made-up"}


def comps(chance: np.random.Generator) -> Fields:
    first, second = chance.choice(NOUNS, 2, replace=False)
    return {"prefix_acceptable": f"the {first}", "prefix_unacceptable": f"the {second}", "property_phrase": sentence(chance)}


def entities(chance: np.random.Generator) -> Fields:
    options = [f" the {noun} ." for noun in chance.permutation(NOUNS)]
    return {"input_prefix": f"{sentence(chance)} the dog sees", "options": options, "numops": 1}


# Format → an object → (what is read first, what is scored) of each text, the right one first.
CANDIDATES: dict[Callable[[np.random.Generator], Fields], Callable[[Fields], list[tuple[str, str]]]] = {
    blimp: lambda row: [("", row["sentence_good"]), ("", row["sentence_bad"])],
    ewok: lambda row: [(row["Context1"], row["Target1"]), (row["Context2"], row["Target1"])],
    comps: lambda row: [(row[f"prefix_{word}acceptable"], row["property_phrase"]) for word in ("", "un")],
    entities: lambda row: [(row["input_prefix"], option) for option in row["options"]],
}


ATTENTION = ("bidirectional", "causal")


def defined(model: MaskedLM, first: list[int], then: list[int]) -> float:
    """Σ over the tokens of `then` of log P(token | all others), or, causal, of log P(token | those before it)."""
    ids, total = [CLS, *first, *then, SEP], 0.0
    places = range(1 + len(first), len(ids) - 1)
    with torch.no_grad():
        if model.encoder.causal:
            logits = [model(torch.tensor([ids[:place]]))[0, -1] for place in places]
        else:
            rows = torch.tensor([[*ids[:place], MASK, *ids[place + 1 :]] for place in places])
            logits = [row[place] for row, place in zip(model(rows), places, strict=True)]
    for place, outputs in zip(places, logits, strict=True):
        assert outputs.dtype == torch.float64
        total += float(torch.log_softmax(outputs, -1)[ids[place]])
    return total


@pytest.mark.parametrize(
    ("made", "attention"),
    [
        (made, attention)
        for place, made in enumerate(CANDIDATES)
        for attention in (ATTENTION if FULL else ATTENTION[place % 2 :][:1])
    ],
    ids=lambda case: getattr(case, "__name__", case),
)
def test_a_format_is_scored_as_it_is_defined(
    tmp_path: Path, tokenizer: Tokenizer, made: Callable[[np.random.Generator], Fields], attention: str
) -> None:
    model = model_of("absolute", vocabulary=tokenizer.size, max_positions=64, attention=attention).eval()
    chance = np.random.default_rng(0)
    rows = [made(chance) for _ in range(10)]
    (tmp_path / "made.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = minimal_pairs(model, tokenizer, PairFiles(tmp_path).pairs(), "plain")
    expected = []
    for row in rows:
        texts = [[tokenizer.encode([part])[0].tolist() for part in parts] for parts in CANDIDATES[made](row)]
        scores = [defined(model, first, then) for first, then in texts]
        expected.append(float(scores[0] == max(scores)) / scores.count(max(scores)))
    assert found.right.tolist() == expected
    assert {0.0, 1.0} <= set(expected)


def test_several_texts_that_are_tied_share_a_right_answer(tokenizer: Tokenizer) -> None:
    model = model_of("none", vocabulary=tokenizer.size)
    orders = ("the cat sees the dog .", "the dog sees the cat .", "dog the sees cat the .")
    worst = "the the the the the the"
    assert minimal_pairs(model, tokenizer, [PairItem("a", orders, "")]).right.tolist() == [1 / 3]
    scores = minimal_pairs(
        model, tokenizer, [PairItem("a", orders, ""), PairItem("b", (worst, *orders), ""), PairItem("c", orders[:2], "")]
    )
    summary = scores.summary()
    assert scores.answers()["same_words"] == {"a": "3", "c": "t"}
    assert summary["same_words"]["accuracy"] == pytest.approx(100 * (1 / 3 + 1 / 2) / 2)
    assert summary["same_words"]["ties_right"] == 100.0
    assert summary["same_words"]["interval"] == [pytest.approx(summary["same_words"]["accuracy"])] * 2


def test_a_token_that_reaches_over_the_end_of_what_is_given_is_scored(tokenizer: Tokenizer) -> None:
    """`cats` is one piece or another cut than `cat` and `s`: either way nothing of what follows is left out."""
    model = model_of("fixed", vocabulary=tokenizer.size, max_positions=64)
    item = PairItem("a", ("the cats", "the cat ."), "", ("the cat", "the cat"))
    assert minimal_pairs(model, tokenizer, [item]).right.tolist() in ([0.0], [1.0])


def test_a_continuation_of_which_nothing_is_left_is_refused(tokenizer: Tokenizer) -> None:
    model = model_of("fixed", vocabulary=tokenizer.size, max_positions=64)
    item = PairItem("a", ("the cat ", "the cat ."), "own.jsonl line 3", ("the cat", "the cat"))
    with pytest.raises(RelposError, match=r"own\.jsonl line 3: the tokenizer leaves nothing of a sentence"):
        minimal_pairs(model, tokenizer, [item])

"""What stands at `[MASK]`, and the log-probability of a text by token, against the definitions
written as loops."""

import numpy as np
import pytest
import torch

import relpos
from relpos.analysis.likelihood import FillMask, Score, pseudo_log_likelihoods
from relpos.data.tokenizer import CLS, MASK, SEP, Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError
from relpos.model.heads import MaskedLM
from schemes import node

TEXT = "the dogs, and cats sleep."


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> MaskedLM:
    from relpos.model.architecture import Architecture, Size
    from relpos.model.build import build

    torch.manual_seed(0)
    size = Size(layers=1, hidden=16, embedding=8, heads=2, ffn=16, max_positions=24)
    nodes = node("position", "absolute"), node("conv", "none")
    model: MaskedLM = build(Architecture(size, *nodes, tokenizer.size))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    return model.eval()


def test_guesses_are_the_softmax_at_the_masked_tokens(model, tokenizer):
    ids = [CLS, *tokenizer.encode("the"), MASK, *tokenizer.encode("dogs"), MASK, SEP]
    probabilities = model(torch.tensor([ids]))[0].softmax(-1)
    guesses = FillMask(model, tokenizer)("the [MASK] dogs [MASK]", top=3)
    for best, of_place in zip(
        [probabilities[place].topk(3) for place, number in enumerate(ids) if number == MASK],
        guesses,
        strict=True,
    ):
        assert [guess.id for guess in of_place] == best.indices.tolist()
        assert [guess.probability for guess in of_place] == pytest.approx(
            best.values.tolist(), rel=1e-5
        )


def test_a_guess_shows_the_text_with_its_piece_and_the_other_masks(model, tokenizer):
    first, second = FillMask(model, tokenizer)("the [MASK] dogs [MASK].", top=tokenizer.size)
    cat = int(tokenizer.encode("sleep")[0])
    assert next(guess.text for guess in first if guess.id == cat) == "the sleep dogs [MASK]."
    assert next(guess.text for guess in second if guess.id == cat) == "the [MASK] dogs sleep."


def test_a_special_token_takes_the_place_of_a_word(tokenizer):
    whole, first = (tokenizer.encode(text).tolist() for text in ("the dogs, sleep.", "the dogs"))
    marked = tokenizer.encode_marked("the [MASK], sleep.").tolist()
    assert marked == [first[0], MASK, *whole[len(first) :]]
    assert tokenizer.encode_marked("the dogs, sleep.").tolist() == whole
    assert tokenizer.decode_marked(marked) == "the [MASK], sleep."


@pytest.mark.parametrize("form", ["plain", "within_word"])
def test_the_tokens_add_up_to_the_pseudo_log_likelihood(model, tokenizer, form):
    words = Words(tokenizer) if form == "within_word" else None
    [expected] = pseudo_log_likelihoods(model, [tokenizer.encode(TEXT)], words)
    scored = Score(model, tokenizer, form)(TEXT)
    assert scored.total == pytest.approx(expected, rel=1e-6)
    assert scored.pieces == [tokenizer.piece(number) for number in tokenizer.encode(TEXT)]
    assert scored.perplexity == pytest.approx(np.exp(-expected / len(scored.pieces)), rel=1e-6)


def test_special_tokens_in_a_scored_text_are_context_and_have_no_score(model, tokenizer):
    [dogs], [sleep] = (tokenizer.encode(word).tolist() for word in ("dogs", "sleep"))
    scored = Score(model, tokenizer)("dogs [MASK] sleep")
    assert scored.pieces == [tokenizer.piece(dogs), tokenizer.piece(sleep)]
    logits = (
        model(torch.tensor([[CLS, MASK, MASK, sleep, SEP], [CLS, dogs, MASK, MASK, SEP]]))
        .log_softmax(-1)
        .detach()
    )
    assert scored.log_probabilities == pytest.approx(
        [float(logits[0, 1, dogs]), float(logits[1, 3, sleep])], rel=1e-5
    )


@pytest.mark.parametrize(
    ("function", "text", "message"),
    [
        (FillMask, "no mask", r"no \[MASK\] in it"),
        (FillMask, "[SEP]", "there is no token in it"),
        (FillMask, "[MASK] " * 30, "Absolute has 24 positions"),
        (Score, "[MASK]", "there is nothing to score but special tokens"),
    ],
)
def test_a_text_that_cannot_be_filled_or_scored_is_refused(
    model, tokenizer, function, text, message
):
    with pytest.raises(RelposError, match=message):
        function(model, tokenizer)(text)


def test_an_unknown_form_is_refused_from_python(model, tokenizer):
    with pytest.raises(RelposError, match="form=words: within_word or plain is expected"):
        Score(model, tokenizer, "words")


def test_the_functions_of_the_package_name_what_a_run_lacks(tmp_path):
    for function in (relpos.FillMask, relpos.Score):
        with pytest.raises(RelposError, match="network=.*: no finished run and no model folder"):
            function(tmp_path)

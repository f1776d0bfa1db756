"""What a causal network knows: gaps, likelihoods and guesses from the output before a token."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional

from measures.test_gaps import network as bidirectional
from relpos.analysis.likelihood import FillMask, Score, pseudo_log_likelihoods
from relpos.analysis.shuffle_gap import MIRROR, MIRRORED, gaps, shuffled
from relpos.data.objective import next_tokens
from relpos.data.tokenizer import CLS, SEP
from relpos.data.words import Words
from relpos.measures.kinds.attention import attention_mass
from relpos.measures.kinds.lengths import heldout_texts, loss_by_length
from relpos.model.heads import MaskedLM

network = partial(bidirectional, attention="causal")


def log_probability(model: MaskedLM, ids: list[int]) -> list[float]:
    """Of each token but the first given those before it, by a pass for each token."""
    scores = []
    with torch.no_grad():
        for end in range(1, len(ids)):
            logits = model(torch.tensor([ids[:end]]))[0, -1].double()
            scores.append(float(functional.log_softmax(logits, -1)[ids[end]]))
    return scores


def test_the_loss_is_that_of_each_token_given_those_before_it(tokenizer, store):
    model, examples = network(tokenizer, "fixed"), store.examples("heldout", "pair", 64, 3)
    result = gaps(model, examples, {})
    for example in range(3):
        ids, lengths = examples.batch(torch.tensor([example]))
        row = ids[0, : int(lengths)].tolist()
        text = [
            (token, score)
            for token, score in zip(row[1:], log_probability(model, row), strict=True)
            if token != SEP
        ]
        assert result.predicted[example] == len(text)
        assert result.losses[example] == pytest.approx(-sum(score for _, score in text), rel=1e-5)


def test_both_gaps_count_the_same_tokens_and_a_causal_network_sees_direction_without_positions(
    tokenizer, store
):
    model, examples = network(tokenizer), store.examples("heldout", "pair", 64, 20)
    in_random_order, reversed_rows = (
        gaps(model, examples, shuffled(Words(tokenizer))),
        gaps(model, examples, MIRRORED),
    )
    assert in_random_order.loss == reversed_rows.loss
    assert np.array_equal(in_random_order.predicted, reversed_rows.predicted)
    assert abs(in_random_order.differences["all"]).max() > 0.05
    assert abs(reversed_rows.differences[MIRROR]).max() > 0.05
    ids, lengths = examples.batch(torch.tensor([0]))
    row = ids[0, : int(lengths)].tolist()[::-1]
    backwards = -sum(
        s for t, s in zip(row[1:], log_probability(model, row), strict=True) if t not in (CLS, SEP)
    )
    assert reversed_rows.losses[0] + reversed_rows.differences[MIRROR][0] == pytest.approx(
        backwards, rel=1e-5
    )


def test_a_sentence_has_the_probability_of_its_tokens_one_after_another(tokenizer):
    model, text = network(tokenizer, "rope"), "the cat sat."
    ids = tokenizer.encode(text)
    expected = log_probability(model, [CLS, *map(int, ids)])
    [total] = pseudo_log_likelihoods(model, [np.asarray(ids)], Words(tokenizer))
    assert total == pytest.approx(sum(expected), rel=1e-5)
    for form in ("plain", "within_word"):
        assert Score(model, tokenizer, form)(text).log_probabilities == pytest.approx(
            expected, rel=1e-5
        )


def test_a_mask_is_filled_from_what_stands_before_it(tokenizer):
    model = network(tokenizer, "fixed")
    first, second = (
        FillMask(model, tokenizer)(text)
        for text in ("the cat [MASK] the dog.", "the cat [MASK] a mat.")
    )
    assert [guess.probability for guess in first[0]] == pytest.approx(
        [guess.probability for guess in second[0]]
    )
    ids = [CLS, *map(int, tokenizer.encode("the cat"))]
    assert first[0][0].probability == pytest.approx(
        float(model(torch.tensor([ids]))[0, -1].softmax(-1).max().detach()), rel=1e-5
    )


def test_no_attention_goes_to_later_tokens(tokenizer):
    texts = torch.randint(5, tokenizer.size, (4, 12), generator=torch.Generator().manual_seed(0))
    for position in ("rope", "synthesizer_random"):
        attention = attention_mass(network(tokenizer, position), texts)
        mass = np.array(attention["mass"])
        assert np.abs(mass[:, :, 9:]).max() == 0 == np.abs(attention["after"]).max()
        np.testing.assert_allclose(mass.sum(2) + attention["before"], 1, atol=1e-6)


def test_loss_by_length_predicts_all_tokens_of_text(tokenizer, store):
    texts = heldout_texts(store, 16, 300, next_tokens)
    results = [loss_by_length(network(tokenizer, "fixed"), texts, n, "fp32") for n in (8, 16)]
    assert {scores["predicted"] for scores in results} == {sum(len(ids) for ids, _ in texts)}

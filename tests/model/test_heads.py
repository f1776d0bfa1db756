"""The heads and their `loss`."""

from typing import get_args

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

import reference
from relpos.model.heads import Classifier, ClassifierKind
from relpos.model.loss import tied_cross_entropy
from schemes import SHAPE, VOCABULARY, batch, gradients_of, model_of


def test_logits_equal_the_loops():
    model = model_of("composite").eval()
    ids, mask = batch(rows=1)
    hidden = model.encoder(ids, mask)[0, 4]
    assert_close(model(ids, mask)[0, 4], reference.logits(model, hidden))


def test_loss_is_the_mean_over_the_chosen_tokens():
    model = model_of("composite").eval()
    ids, mask = batch()
    labels = torch.full_like(ids, -100)
    labels[0, 2], labels[1, 1], labels[1, 4] = 7, 8, 22
    logits = model(ids, mask)
    expected = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    assert_close(model.loss(ids, labels, mask), expected)
    total, number, right = model.loss_sum(ids, labels, mask)
    assert_close(total, 3 * expected)
    assert int(number) == 3
    assert int(right) == int((logits.argmax(-1) == labels).sum())


def test_rows_may_count_by_weights():
    ids, mask = batch()
    labels = torch.where(torch.arange(9) % 2 == 0, ids, torch.tensor(-100)).masked_fill(
        mask == 0, -100
    )
    weights, results = torch.tensor([0.5, 3.0], dtype=torch.float64), []
    for at_once in (True, False):
        model = model_of("composite").eval()
        if at_once:
            total, _, right = model.loss_sum(ids, labels, mask, weights=weights)
        else:
            parts = [
                model.loss_sum(ids[i : i + 1], labels[i : i + 1], mask[i : i + 1]) for i in range(2)
            ]
            total, right = (
                sum(w * part[k] for w, part in zip(weights, parts, strict=True)) for k in (0, 2)
            )  # type: ignore[misc]
        total.backward()
        results.append([total.detach(), right.double(), *gradients_of(model)])
    assert_close(*results)


def test_gradients_equal_those_of_all_logits():
    ids, mask = batch()
    labels = torch.where(torch.arange(9) % 2 == 0, ids, torch.tensor(-100))
    grads = []
    for sparse in (True, False):
        model = model_of("composite").eval()
        logits = model(ids, mask)
        dense = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        (model.loss(ids, labels, mask) if sparse else dense).backward()
        grads.append(gradients_of(model))
    assert_close(*grads)


def test_the_loss_of_many_rows_has_the_right_gradient():
    x, words, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        for shape in ((130, 3), (7, 3), (7,))
    )
    target = torch.randint(7, (130,))
    expected = functional.cross_entropy(functional.linear(x, words, bias), target, reduction="sum")
    total, _ = tied_cross_entropy(x, words, bias, target)
    assert_close(total, expected)
    gradients = torch.autograd.grad(total * 0.5, (x, words, bias))
    assert_close(gradients, torch.autograd.grad(expected * 0.5, (x, words, bias)))


@pytest.mark.parametrize("size", [1e3, 1e5])
def test_the_loss_survives_large_logits(size):
    x, words = torch.tensor([[size]], requires_grad=True), torch.tensor([[1.0], [-1.0]])
    total, right = tied_cross_entropy(x, words, torch.zeros(2), torch.tensor([1]))
    assert total.item() == pytest.approx(2 * size)
    assert int(right) == 0


def test_the_word_table_is_tied():
    model = model_of("composite")
    assert sum(1 for p in model.parameters() if p.shape == (VOCABULARY, SHAPE.embedding)) == 1


def test_the_classifier_reads_the_first_token_through_a_fresh_pooler():
    classifier = Classifier(model_of("composite").encoder, 3).double().eval()
    ids, mask = batch()
    first = classifier.encoder(ids, mask)[:, 0]
    expected = classifier.classifier(torch.tanh(classifier.pooler(first)))
    assert_close(classifier(ids, mask), expected)
    assert isinstance(classifier.pooler, nn.Linear)
    assert classifier.classifier.bias.abs().max() == 0


@pytest.mark.parametrize("kind", ["mean", "jiant_mean"])
def test_a_row_of_padding_has_the_mean_zero(kind):
    classifier = Classifier(model_of("composite").encoder, 3, kind=kind).double().eval()
    ids, mask = torch.ones(2, 5, dtype=torch.long), torch.tensor([[1, 1, 1, 0, 0], [0] * 5])
    logits = classifier(ids, mask)
    assert logits.isfinite().all()
    pooled = torch.tanh(classifier.pooler.bias)
    dense = torch.tanh(classifier.dense(pooled)) if classifier.dense is not None else pooled
    assert_close(logits[1], classifier.classifier(dense))
    assert_close(logits[:1], classifier(ids[:1], mask[:1]))
    logits.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in classifier.parameters())


def test_a_classifier_of_the_mean_reads_all_real_tokens_and_no_padding():
    classifier = Classifier(model_of("composite").encoder, 3, kind="mean").double().eval()
    ids, mask = batch()
    x = classifier.encoder(ids, mask)
    means = torch.stack([row[real.bool()].mean(0) for row, real in zip(x, mask, strict=True)])
    assert_close(classifier(ids, mask), classifier.classifier(torch.tanh(classifier.pooler(means))))
    whole = ids[mask.bool().all(1)]
    assert_close(classifier(whole), classifier(whole, torch.ones_like(whole)))
    alone = torch.cat(
        [classifier(row[real.bool()][None]) for row, real in zip(ids, mask, strict=True)]
    )
    assert_close(classifier(ids, mask), alone)
    heads = {
        kind: Classifier(classifier.encoder, 3, kind=kind) for kind in get_args(ClassifierKind)
    }
    assert {kind for kind, head in heads.items() if head.mean} == {"mean", "jiant_mean"}
    assert {kind for kind, head in heads.items() if head.dense} == {"jiant", "jiant_mean"}


def test_a_likely_target_has_a_gradient_in_bfloat16():
    x = torch.tensor([[7.0]], requires_grad=True)
    words = torch.tensor([[1.0], [0.0]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = tied_cross_entropy(x, words, torch.zeros(2), torch.tensor([0]))
    p = torch.softmax(torch.tensor([7.0, 0.0]), 0)
    assert p[0] > 0.999
    total.backward()
    assert x.grad is not None
    assert x.grad.item() == pytest.approx(float(p[0]) - 1, rel=0.01)

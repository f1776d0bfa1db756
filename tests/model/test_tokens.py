"""Tokens that nobody reads are not computed, and nothing else changes."""

from typing import Any

import pytest
import torch
from torch import Tensor

from relpos.model import kernels
from relpos.model.dropout import Draw, drop, seed_dropout
from relpos.model.heads import Classifier
from relpos.model.position import Composite, Terms
from relpos.model.shape import Shape
from relpos.model.tokens import Tokens
from schemes import CONVS, POSITIONS, batch, gradients_of, model_of, near, sampled

AT = torch.tensor([0, 1, 5, 6, 7, 11])


def test_heads_of_the_first_tokens_of_each_row():
    tokens = Tokens.first(3, 4, torch.tensor([0, 1, 4, 5, 6, 8]))
    assert tokens.starts is not None
    assert tokens.starts.tolist() == [0, 2, 5, 6]
    x = torch.randn(3, 2, 4, 5)
    row = tokens.take_heads(x)
    assert row.shape == (1, 2, 6, 5)
    assert torch.equal(row[0, :, 2:5], x[1, :, :3])
    assert torch.equal(tokens.take_heads(tokens.spread_heads(row)), row)


def test_all_tokens_stay_as_they_are():
    x = torch.randn(3, 4, 5)
    assert Tokens(3, 4).take(x) is x
    assert Tokens(3, 4).spread(x) is x


def test_a_token_has_the_dropout_that_it_has_among_all():
    x, draw = torch.ones(3, 4, 8), Draw(0.5, 7)
    rows = drop(Tokens(3, 4, AT).take(x), draw._replace(tokens=Tokens(3, 4, AT)))
    assert torch.equal(rows, drop(x, draw).flatten(0, 1)[AT])


def losses_and_gradients(position: str, conv: str, kernel: str) -> list[Tensor]:
    """Losses of a language model and a classifier in training on a batch with padding; gradients."""
    model = model_of(position, conv, kernel=kernel).train()
    classifier = Classifier(model.encoder, 3).double().train()
    ids, mask = batch(rows=4, n=12)
    assert not mask.all()
    seed_dropout(model, 3, torch.arange(4))
    seed_dropout(classifier, 4, torch.arange(4))
    labels = torch.where((torch.arange(12) % 3 == 1) & mask.bool(), ids, torch.tensor(-100))
    results = [model.loss(ids, labels, mask), classifier(ids, mask).square().sum()]
    sum(results).backward()
    return [*results, *gradients_of(model, classifier)]


@pytest.mark.parametrize(
    ("position", "conv"),
    [(name, "none") for name in sampled(POSITIONS)] + [("none", name) for name in sampled(CONVS)],
)
def test_losses_and_gradients_are_those_with_padding(position, conv):
    near(*(losses_and_gradients(position, conv, kernel) for kernel in ("auto", "eager")))


@pytest.mark.parametrize("position", POSITIONS)
def test_schemes_that_go_by_token_do_without_the_rows_of_a_batch(position, monkeypatch):
    """Here with a kernel for which q and k in one row are spread again."""
    packed: list[bool] = []
    monkeypatch.setattr(kernels, "packs", lambda *_: packed.append(True) or True)
    results = []
    for first in (True, False):
        model = model_of(position).train()
        ids, mask = batch(rows=4, n=12)
        at = mask.flatten().nonzero().squeeze(1)
        seed_dropout(model, 3, torch.arange(4))
        labels = torch.where((torch.arange(12) % 3 == 1) & mask.bool(), ids, torch.tensor(-100))
        held = Tokens.first(4, 12, at) if first else Tokens(4, 12, at)
        loss, *_ = model.loss_sum(ids, labels, mask, held=held)
        loss.backward()
        results.append([loss.detach(), *gradients_of(model)])
    assert bool(packed) == model.encoder.position.by_token == model.encoder.by_token
    near(*results)


def test_a_scheme_that_fills_holes_in_another_way_says_anew_whether_it_goes_by_token():
    class Mine(Composite):
        def terms(self, layer: int, q: Any, k: Any, state: Any) -> Terms:
            return Terms(offset=q.new_zeros(self.shape.heads, 2 * q.shape[2] - 1))

    assert Composite(Shape.example()).by_token
    assert not Mine(Shape.example()).by_token


@pytest.mark.parametrize("kernel", ["auto", "eager"])
def test_a_pass_in_which_nothing_is_predicted_has_no_loss(kernel):
    model = model_of("composite", kernel=kernel).train()
    ids, mask = batch()
    loss = model.loss(ids, torch.full_like(ids, -100), mask)
    loss.backward()
    assert loss == 0
    assert not any(grad.any() for grad in gradients_of(model))

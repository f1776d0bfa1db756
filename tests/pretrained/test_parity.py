"""A published checkpoint computes here what it computes in `transformers`: hidden states, logits and gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import relpos
from hosts import batch, hidden_states, host, saved, saved_gradients

EMBEDDING = {"embedding_size": 8}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", {}),
    "bert with an own decoder": ("BertForMaskedLM", {"tie_word_embeddings": False}),
    "bert with relu": ("BertForMaskedLM", {"hidden_act": "relu"}),
    "bert classifier": ("BertForSequenceClassification", {"num_labels": 3}),
    "albert": ("AlbertForMaskedLM", EMBEDDING),
    "albert with erf gelu": ("AlbertForMaskedLM", EMBEDDING | {"hidden_act": "gelu"}),
    "albert classifier": ("AlbertForSequenceClassification", EMBEDDING | {"num_labels": 3}),
}


@pytest.mark.parametrize("name", MODELS)
def test_hidden_states_of_every_layer_are_equal(name: str, tmp_path: Path) -> None:
    theirs = host(MODELS[name][0], **MODELS[name][1])
    ours, tokenizer = relpos.load(saved(theirs, tmp_path))
    ids, mask, types = batch(types=theirs.config.type_vocab_size)
    expected = theirs(ids, mask, types, output_hidden_states=True).hidden_states
    states = hidden_states(ours, ids, mask, types)
    assert tokenizer is None
    assert len(states) == len(expected)
    for ours_here, theirs_here in zip(states, expected, strict=True):
        torch.testing.assert_close(ours_here[mask], theirs_here[mask], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_gradients_are_equal(name: str, tmp_path: Path) -> None:
    theirs = host(MODELS[name][0], **MODELS[name][1])
    ours, _ = relpos.load(saved(theirs, tmp_path))
    ids, mask, types = batch(types=theirs.config.type_vocab_size)
    expected, logits = theirs(ids, mask, types).logits, ours(ids, mask, types)
    if logits.shape[:2] == mask.shape:
        expected, logits = expected[mask], logits[mask]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)
    weights = torch.linspace(-1, 1, logits.numel(), dtype=torch.float64).view_as(logits)
    (expected * weights).sum().backward()
    (logits * weights).sum().backward()
    gradients, _ = relpos.load(saved_gradients(theirs, tmp_path / "gradients"))
    for (parameter, ours_here), theirs_here in zip(ours.named_parameters(), gradients.parameters(), strict=True):
        torch.testing.assert_close(ours_here.grad, theirs_here.data, rtol=0, atol=1e-10, msg=parameter)

"""A checkpoint that came in leaves as it came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from hosts import host, saved
from relpos.pretrained.checkpoint import Checkpoint
from relpos.pretrained.writing import published
from relpos.train.weights import load_model

EMBEDDING = {"embedding_size": 8}
KINDS: dict[str, dict[str, Any]] = {
    "BertForMaskedLM": {},
    "BertForSequenceClassification": {"num_labels": 3},
    "AlbertForMaskedLM": EMBEDDING,
    "AlbertForSequenceClassification": EMBEDDING | {"num_labels": 3},
    "ElectraForMaskedLM": EMBEDDING,
    "ElectraForPreTraining": EMBEDDING,
    "RoFormerForMaskedLM": EMBEDDING,
    "ConvBertForMaskedLM": EMBEDDING,
}


@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_configuration_are_those_that_were_read(kind: str, tmp_path: Path) -> None:
    theirs = host(kind, **KINDS[kind])
    checkpoint = Checkpoint(saved(theirs, tmp_path))
    written = published(load_model(tmp_path), checkpoint.words)
    assert written is not None
    assert written.config["architectures"] == [kind]
    assert {key: checkpoint.config.get(key, value) for key, value in written.config.items()} == written.config
    assert written.tensors.keys() <= checkpoint.tensors.keys()
    for name, tensor in written.tensors.items():
        torch.testing.assert_close(tensor, checkpoint.tensors[name], rtol=0, atol=0, msg=name)


def test_untied_heads_leave_with_their_table(tmp_path: Path) -> None:
    checkpoint = Checkpoint(saved(host("BertForMaskedLM", tie_word_embeddings=False), tmp_path))
    written = published(load_model(tmp_path), checkpoint.words)
    assert written is not None
    assert written.config["tie_word_embeddings"] is False
    assert "cls.predictions.decoder.weight" in written.tensors

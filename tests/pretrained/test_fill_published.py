"""Published checkpoints fill masks and score texts, with their own special tokens or with ours."""

from pathlib import Path
from typing import Any

import pytest
import torch

import relpos
from hosts import SIZES

transformers = pytest.importorskip("transformers", reason="needs relpos[pretrained]")
tokenizers = pytest.importorskip("tokenizers", reason="needs relpos[pretrained]")

BERT = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
ROBERTA = {
    "cls_token": "<s>",
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
WORDS = ["the", "cat", "dog", "mat", "on", "sat", "##s"]


def checkpoint(folder: Path, kind: str, special: dict[str, str]) -> Path:
    """A randomly initialised model of `transformers` with a WordPiece tokenizer of a few words."""
    pieces = {piece: number for number, piece in enumerate([*special.values(), *WORDS])}
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(pieces, unk_token=special["unk_token"])
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.decoder = tokenizers.decoders.WordPiece()
    cls, sep = special["cls_token"], special["sep_token"]
    backend.post_processor = tokenizers.processors.BertProcessing(
        (sep, pieces[sep]), (cls, pieces[cls])
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(
        folder
    )
    model_class: Any = getattr(transformers, kind)
    torch.manual_seed(0)
    model = model_class(
        model_class.config_class(
            **SIZES | {"vocab_size": len(pieces), "pad_token_id": pieces[special["pad_token"]]}
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("kind", "special"), [("BertForMaskedLM", BERT), ("RobertaForMaskedLM", ROBERTA)]
)
def test_guesses_are_those_of_the_pipeline_of_transformers(kind, special, tmp_path):
    folder, mask = checkpoint(tmp_path / "checkpoint", kind, special), special["mask_token"]
    answers = transformers.pipeline("fill-mask", model=str(folder), top_k=3)(
        f"the {mask} sat on the mat"
    )
    for name in {mask, "[MASK]"}:
        [guesses] = relpos.FillMask(folder)(f"the {name} sat on the mat", top=3)
        assert [guess.id for guess in guesses] == [answer["token"] for answer in answers]
        assert [guess.probability for guess in guesses] == pytest.approx(
            [answer["score"] for answer in answers], rel=1e-4
        )


def test_later_pieces_of_a_word_are_masked_with_it(tmp_path):
    folder = checkpoint(tmp_path / "checkpoint", "BertForMaskedLM", BERT)
    plain, within = (
        relpos.Score(folder, form)("the cats sat") for form in ("plain", "within_word")
    )
    assert plain.pieces == within.pieces == ["the", "cat", "##s", "sat"]
    changed = [
        a != pytest.approx(b)
        for a, b in zip(plain.log_probabilities, within.log_probabilities, strict=True)
    ]
    assert changed == [False, True, False, False]

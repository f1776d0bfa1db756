"""Small tokenizers of the three kinds that published checkpoints have, as `transformers` writes
them. For tests only."""

from pathlib import Path

import pytest

transformers = pytest.importorskip("transformers", reason="needs relpos[pretrained]")
tokenizers = pytest.importorskip("tokenizers", reason="needs relpos[pretrained]")

TEXT = "the cat, a cattle mat!"
SPECIAL = {
    "bert": {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    },
    "roberta": {
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "mask_token": "<mask>",
    },
    "albert": {
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    },
}


def published(kind: str, folder: Path) -> Path:
    """A folder with a tokenizer of a few pieces: WordPiece, byte-level BPE or SentencePiece's
    unigram model."""
    special = list(SPECIAL[kind].values())
    if kind == "bert":
        words = [*special, "the", "cat", "##tle", "a", "mat", ",", "!", "[", "]", "mask"]
        model = tokenizers.Tokenizer(
            tokenizers.models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]")
        )
        model.normalizer = tokenizers.normalizers.BertNormalizer()
        model.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        model.decoder = tokenizers.decoders.WordPiece()
    elif kind == "roberta":
        model = tokenizers.ByteLevelBPETokenizer()
        model.train_from_iterator(
            [TEXT] * 3, vocab_size=280, min_frequency=2, special_tokens=special
        )
    else:
        pieces = [*special, "▁the", "▁cat", "tle", "▁a", "▁mat", ",", "!", "▁", *"[]mask"]
        model = tokenizers.Tokenizer(
            tokenizers.models.Unigram([(piece, -1.0) for piece in pieces], unk_id=1)
        )
        model.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
        model.decoder = tokenizers.decoders.Metaspace()
    backend = getattr(model, "_tokenizer", model)
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL[kind]).save_pretrained(
        folder
    )
    return folder

"""Our SentencePiece tokenizer as a fast tokenizer of Hugging Face: the same pieces under the same ids.

A fast tokenizer is `tokenizer.json`, a description that the library `tokenizers` executes: the normalisation that the SentencePiece
model holds, white space as `▁`, and the unigram model itself. It reads `[MASK]`, `[CLS]`, `[SEP]` and `[PAD]` in a text as special
tokens, as `Tokenizer.encode_marked` does, and puts [CLS] before a text and [SEP] after it.

Differs from our tokenizer: `<unk>` is called `[UNK]`, because the library reads the name of the unknown token in a text as that
token, and WikiText has `<unk>` in its text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos.data.tokenizer import CLS, MASK, PAD, SEP, UNK, Tokenizer
from relpos.errors import RelposError
from relpos.files import read_bytes, write_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Fast

NAMES = {PAD: "[PAD]", UNK: "[UNK]", CLS: "[CLS]", SEP: "[SEP]", MASK: "[MASK]"}
ROLES = {PAD: "pad_token", UNK: "unk_token", CLS: "cls_token", SEP: "sep_token", MASK: "mask_token"}


def fast_tokenizer(tokenizer: Tokenizer, second_type: int = 0, open_end: bool = False) -> Fast:
    """The fast tokenizer.

    Args:
        tokenizer: of a run.
        second_type: token type of the second of two texts; 0 in our pre-training, 1 in our fine-tuning.
        open_end: no [SEP] follows a text, as a causal language model has it: the ids of a text begin those of a longer one.

    Raises:
        RelposError: the library `tokenizers` is not installed.
    """
    try:
        from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
        from tokenizers import Tokenizer as Fast
    except ImportError:
        raise RelposError("a fast tokenizer needs the library tokenizers: pip install 'relpos[pretrained]'") from None
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(read_bytes(tokenizer.path))  # type: ignore[attr-defined]
    pieces = [(NAMES.get(number, piece.piece), piece.score) for number, piece in enumerate(model.pieces)]
    fast = Fast(models.Unigram(pieces, unk_id=UNK, byte_fallback=False))
    fast.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap),
            # The model's table of characters does not hold these two: SentencePiece removes needless spaces in a step of its own.
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Strip(left=False, right=True),  # on the left a space begins a word, also after a special token
        ]
    )
    # Not `always`: behind a special token a text begins a word only where a space stands, as in `encode_marked`.
    fast.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    fast.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="first")
    single, pair = "[CLS]:0 $A:0", f"[CLS]:0 $A:0 [SEP]:0 $B:{second_type}"
    fast.post_processor = processors.TemplateProcessing(
        single=single if open_end else f"{single} [SEP]:0",
        pair=pair if open_end else f"{pair} [SEP]:{second_type}",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    # A special token takes the place of a word, with the space before it.
    # Not normalised: with its case folded, `[mask]` in a text would be the special token, too.
    fast.add_special_tokens([AddedToken(NAMES[number], lstrip=True, normalized=False, special=True) for number in NAMES])
    return fast


def write_fast_tokenizer(
    folder: Path, tokenizer: Tokenizer, max_length: int | None, second_type: int = 0, open_end: bool = False
) -> None:
    """Writes `tokenizer.json`, `tokenizer_config.json` and `special_tokens_map.json`.

    Args:
        folder: must exist.
        tokenizer: of a run.
        max_length: the longest sequence that the network serves; None: any.
        second_type, open_end: see `fast_tokenizer`. With `open_end`, [CLS] is also the `bos_token` and [SEP] the `eos_token`.
    """
    write_json(folder / "tokenizer.json", json.loads(fast_tokenizer(tokenizer, second_type, open_end).to_str()))
    special = {ROLES[number]: name for number, name in NAMES.items()}
    if open_end:
        special |= {"bos_token": NAMES[CLS], "eos_token": NAMES[SEP]}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        # Otherwise decoding may take away the spaces before punctuation, which ours keeps.
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "padding_side": "right",
    }
    longest = {} if max_length is None else {"model_max_length": max_length}
    write_json(folder / "tokenizer_config.json", config | longest | special)
    write_json(folder / "special_tokens_map.json", special)

"""Our SentencePiece tokenizer as a fast tokenizer of Hugging Face: the same pieces under the same ids.

A fast tokenizer is `tokenizer.json`, a description that the library `tokenizers` executes: the normalisation that the SentencePiece
model holds, white space as `▁`, and the model itself: unigram or BPE. It reads `[MASK]`, `[CLS]`, `[SEP]` and `[PAD]` in a text as
special tokens, as `Tokenizer.encode_marked` does, and puts [CLS] before a text and [SEP] after it.

Differs from our tokenizer: `<unk>` is called `[UNK]`, because the library reads the name of the unknown token in a text as that
token, and WikiText has `<unk>` in its text. Marks for which there is no letter that holds them, as on A̐, may be lost behind a
capital, and several of them may change places. A model that keeps all white space, as somebody else's may, adds one more space
before a text that begins with one; the fast tokenizer does not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos.data.tokenizer import NAMES, SPACE, Tokenizer
from relpos.errors import RelposError
from relpos.files import write_json
from relpos.readers import read_bytes

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Fast

UNKNOWN = "[UNK]"
BPE = 2
"""SentencePiece's number for it in `trainer_spec.model_type`; 1 is unigram."""


def fast_tokenizer(tokenizer: Tokenizer, second_type: int = 0, open_end: bool = False) -> Fast:
    """The fast tokenizer.

    Args:
        tokenizer: of a run.
        second_type: token type of the second of two texts; 0 in our pre-training, 1 in our fine-tuning.
        open_end: no [SEP] follows a text, as a causal language model has it: the ids of a text begin those of a longer one.

    Raises:
        RelposError: the library `tokenizers` is not installed, or it knows no such model.
    """
    try:
        from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
        from tokenizers import Tokenizer as Fast
    except ImportError:
        raise RelposError("a fast tokenizer needs the library tokenizers: pip install transformers") from None
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(read_bytes(tokenizer.path))  # type: ignore[attr-defined]
    spec, trained = model.normalizer_spec, model.trainer_spec
    names = [UNKNOWN if number == tokenizer.unk else piece.piece for number, piece in enumerate(model.pieces)]
    pieces = [(name, piece.score) for name, piece in zip(names, model.pieces, strict=True)]
    if trained.model_type > BPE:
        raise RelposError(f"tokenizer {tokenizer.path}: a model of words or characters, for which there is no fast tokenizer")
    if trained.model_type == BPE:
        numbers = {piece: number for number, piece in enumerate(names)}
        fast = Fast(models.BPE(numbers, _merges(pieces), unk_token=UNKNOWN, fuse_unk=True, byte_fallback=trained.byte_fallback))
    else:
        fast = Fast(models.Unigram(pieces, unk_id=tokenizer.unk, byte_fallback=trained.byte_fallback))
    rules: list[Any] = []
    if spec.precompiled_charsmap:
        # The library reads the table letter by letter, where SentencePiece finds letters and marks that belong together.
        rules += [normalizers.NFC(), normalizers.Precompiled(spec.precompiled_charsmap)]
    if spec.remove_extra_whitespaces:
        # The model's table of characters does not hold these two: SentencePiece removes needless spaces in a step of its own.
        rules += [normalizers.Replace(Regex(" {2,}"), " ")]
        rules += [normalizers.Strip(left=False, right=True)]  # on the left a space begins a word, also after a special token
    fast.normalizer = normalizers.Sequence(rules)
    # Not `always`: behind a special token a text begins a word only where a space stands, as in `encode_marked`.
    scheme = "first" if spec.add_dummy_prefix else "never"
    split = not any(SPACE in piece[1:] for piece in names)
    fast.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=split)
    if trained.byte_fallback:  # else the library would take `<0x41>` in a text for the piece of that byte
        literal = pre_tokenizers.Split(Regex("<(?=0x[0-9A-F]{2}>)"), "isolated")
        fast.pre_tokenizer = pre_tokenizers.Sequence([literal, fast.pre_tokenizer])
    metaspace = decoders.Metaspace(replacement=SPACE, prepend_scheme=scheme)
    fast.decoder = decoders.Sequence([decoders.ByteFallback(), metaspace]) if trained.byte_fallback else metaspace
    cls, sep = tokenizer.piece(tokenizer.cls), tokenizer.piece(tokenizer.sep)
    single, pair = f"{cls}:0 $A:0", f"{cls}:0 $A:0 {sep}:0 $B:{second_type}"
    fast.post_processor = processors.TemplateProcessing(
        single=single if open_end else f"{single} {sep}:0",
        pair=pair if open_end else f"{pair} {sep}:{second_type}",
        special_tokens=[(cls, tokenizer.cls), (sep, tokenizer.sep)],
    )
    # A special token takes the place of a word, with the space before it.
    # Not normalised: with its case folded, `[mask]` in a text would be the special token, too.
    special = sorted([tokenizer.unk, *(getattr(tokenizer, role) for role in NAMES)])
    fast.add_special_tokens([AddedToken(names[number], lstrip=True, normalized=False, special=True) for number in special])
    return fast


def _merges(pieces: list[tuple[str, float]]) -> list[tuple[str, str]]:
    """The pairs of pieces that BPE makes one piece of, in the order in which it does: SentencePiece keeps the pieces alone."""
    known = {piece for piece, _ in pieces}
    ordered = [piece for piece, _ in sorted(pieces, key=lambda pair: -pair[1])]
    cut = ((piece[:at], piece[at:]) for piece in ordered for at in range(1, len(piece)))
    return [pair for pair in cut if {*pair} <= known]


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
    special = {f"{role}_token": tokenizer.piece(getattr(tokenizer, role)) for role in NAMES} | {"unk_token": UNKNOWN}
    if open_end:
        special |= {"bos_token": special["cls_token"], "eos_token": special["sep_token"]}
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

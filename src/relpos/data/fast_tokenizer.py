"""A tokenizer as a fast tokenizer of Hugging Face: the same pieces under the same ids.

A fast tokenizer is `tokenizer.json`, a description that the library `tokenizers` executes. That of
a SentencePiece model consists of the normalisation that the model holds, white space as `▁`, and
the model itself: unigram or BPE. It reads `[MASK]`, `[CLS]`, `[SEP]` and `[PAD]` in a
text as special tokens, as `Tokenizer.encode_marked` does.

Differs from our tokenizer: `<unk>` is called `[UNK]`, because the library reads the name of the
unknown token in a text as that token, and WikiText has `<unk>` in its text. Several marks for which
there is no letter that holds them may change places. Where a unigram model has two ways of the same
probability (99|9 and 9|99), SentencePiece's rounding decides.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from relpos.data.published_tokenizer import PublishedTokenizer
from relpos.data.tokenizer import NAMES, SPACE, Tokenizer
from relpos.errors import RelposError
from relpos.files import write_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Fast
    from tokenizers import normalizers

UNKNOWN = "[UNK]"
UNIGRAM, BPE = 1, 2
"""SentencePiece's numbers in `trainer_spec.model_type`."""
RULES = ("nmt_nfkc", "nmt_nfkc_cf")
"""Normalisations that `train_tokenizer` asks for."""
JOINT = "\ufdd0"
"""A character that no text has."""


def fast_tokenizer(tokenizer: Tokenizer) -> Fast:
    """The fast tokenizer of a SentencePiece model; it puts no special tokens around a text.

    Raises:
        RelposError: the library `tokenizers` is not installed, or the model has options that
            `train_tokenizer` does not set.
    """
    try:
        from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
        from tokenizers import Tokenizer as Fast
    except ImportError:
        raise RelposError(
            "a fast tokenizer needs the library tokenizers: pip install transformers"
        ) from None

    model = tokenizer.proto
    unk = tokenizer.unk
    kinds = type(model.pieces[0])
    byte_fallback = model.trainer_spec.byte_fallback

    def of_kind(kind: int) -> list[str]:
        return [piece.piece for piece in model.pieces if piece.type == kind]

    controls = of_kind(kinds.CONTROL)
    _refuse_foreign(tokenizer, of_kind(kinds.USER_DEFINED), controls)
    names = [piece.piece for piece in model.pieces]
    names[unk] = UNKNOWN
    scores = [piece.score for piece in model.pieces]
    if model.trainer_spec.model_type == UNIGRAM:
        pieces = list(zip(names, scores, strict=True))
        fast = Fast(models.Unigram(pieces, unk_id=unk, byte_fallback=byte_fallback))
    else:
        numbers = {name: number for number, name in enumerate(names)}
        merges = _merges({name: scores[numbers[name]] for name in of_kind(kinds.NORMAL)})
        fast = Fast(
            models.BPE(
                numbers,
                merges,
                unk_token=UNKNOWN,
                fuse_unk=True,
                byte_fallback=byte_fallback,
            )
        )
    fast.normalizer = _normalizer(model.normalizer_spec.precompiled_charsmap)
    # A text may spell the names of these pieces. The library would take it for them, SentencePiece
    # does not.
    hidden = [*controls, UNKNOWN, *["<0x"] * byte_fallback]
    cuts = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in hidden)
    splits: list[pre_tokenizers.PreTokenizer] = [
        # not `always`: behind a special token a text begins a word only where a space stands, as in
        # `encode_marked`
        pre_tokenizers.Metaspace(" ", "first", split=False),
        pre_tokenizers.Metaspace(SPACE, "never", split=False),
        pre_tokenizers.Split(Regex(cuts), "merged_with_previous"),
    ]
    # A text stays whole where unknown words and the space between are one token.
    if SPACE in names:
        splits.append(pre_tokenizers.Split(SPACE, "merged_with_next"))
    fast.pre_tokenizer = pre_tokenizers.Sequence(splits)
    steps: list[decoders.Decoder] = [
        decoders.Replace(SPACE, " "),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    if byte_fallback:
        steps.insert(0, decoders.ByteFallback())
    fast.decoder = decoders.Sequence(steps)
    # A special token takes the place of a word, with the space before it.
    # Not normalised: with its case folded, `[mask]` in a text would be the special token, too.
    fast.add_special_tokens(
        [
            AddedToken(names[number], lstrip=True, normalized=False, special=True)
            for number in sorted([unk, *tokenizer.specials.values()])
        ]
    )
    return fast


def _refuse_foreign(tokenizer: Tokenizer, symbols: list[str], controls: list[str]) -> None:
    """Raises RelposError, which names the option, for a model with one that `train_tokenizer` does
    not set and that changes its ids."""
    trained = tokenizer.proto.trainer_spec
    spec = tokenizer.proto.normalizer_spec
    names = [piece.piece for piece in tokenizer.proto.pieces]
    foreign = {
        "a model_type that is not unigram or bpe": trained.model_type not in (UNIGRAM, BPE),
        f"normalization_rule_name={spec.name}": spec.name not in RULES,
        "user_defined_symbols": symbols,
        "treat_whitespace_as_suffix=true": trained.treat_whitespace_as_suffix,
        "add_dummy_prefix=false": not spec.add_dummy_prefix,
        "remove_extra_whitespaces=false": not spec.remove_extra_whitespaces,
        "escape_whitespaces=false": not spec.escape_whitespaces,
        # A text may hold the character.
        "a control symbol of one character": any(len(name) == 1 for name in controls),
        # Such a piece crosses the places where a text is cut.
        "pieces of several words": any(SPACE in name[1:] for name in names),
    }
    for option, is_there in foreign.items():
        if is_there:
            raise RelposError(
                f"tokenizer {tokenizer.path}: there is no fast tokenizer for {option}, with which "
                f"relpos does not train; relpos.load opens the network"
            )


def _normalizer(table: bytes) -> normalizers.Normalizer:
    """What SentencePiece does to a text before it cuts it into pieces, but for the space at the
    beginning; `table` is the model's."""
    from tokenizers import Regex, normalizers

    return normalizers.Sequence(
        [
            # The library looks up a letter together with its marks and may lose them, where
            # SentencePiece finds those that belong together: these are composed before, and the
            # others are held apart.
            normalizers.NFC(),
            normalizers.Replace(Regex(r"(?<=[^\0])(?=[\p{M}\p{Cf}\n])"), JOINT),
            normalizers.Precompiled(table),
            normalizers.Replace(JOINT, ""),
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Replace(Regex(rf"[ {SPACE}]+\z"), ""),
        ]
    )


def _merges(scores: dict[str, float]) -> list[tuple[str, str]]:
    """The pairs of pieces that BPE makes one piece of, in the order in which it does: SentencePiece
    keeps the pieces alone."""
    ordered = sorted(scores, key=lambda piece: -scores[piece])
    cut = ((piece[:at], piece[at:]) for piece in ordered for at in range(1, len(piece)))
    return [pair for pair in cut if {*pair} <= scores.keys()]


def write_fast_tokenizer(
    folder: Path,
    tokenizer: Tokenizer,
    max_length: int | None,
    second_type: int = 0,
    open_end: bool = False,
    types: bool = True,
) -> None:
    """Writes `tokenizer.json` and `tokenizer_config.json`.

    Args:
        folder: must exist.
        tokenizer: of a run.
        max_length: the longest sequence that the network serves; None: any.
        second_type: token type of the second of two texts; 0 in our pre-training, 1 in our
            fine-tuning.
        open_end: no [SEP] follows a text, as a causal language model has it: the ids of a text
            begin those of a longer one. [CLS] is also the `bos_token` and [SEP] the `eos_token`.
        types: whether the network takes token types.
    """
    if isinstance(tokenizer, PublishedTokenizer):
        fast = tokenizer.backend
    else:
        fast = fast_tokenizer(tokenizer)
    from tokenizers import processors  # behind the line that says how it is installed

    special = {
        f"{role}_token": fast.id_to_token(getattr(tokenizer, role)) for role in (*NAMES, "unk")
    }
    cls = special["cls_token"]
    sep = special["sep_token"]
    end = [f"{sep}:0"]
    between = [f"{sep}:0"] * tokenizer.separators
    pair_end = [f"{sep}:{second_type}"]
    if open_end:
        end, pair_end = [], []
        special |= {"bos_token": cls, "eos_token": sep}
    start = [f"{cls}:0", "$A:0"]
    fast.post_processor = processors.TemplateProcessing(
        single=start + end,
        pair=[*start, *between, f"$B:{second_type}", *pair_end],
        special_tokens=[(cls, tokenizer.cls), (sep, tokenizer.sep)],
    )
    write_json(folder / "tokenizer.json", json.loads(fast.to_str()))
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        # Otherwise decoding may take away the spaces before punctuation, which ours keeps.
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", *(["token_type_ids"] * types), "attention_mask"],
        "padding_side": "right",
    }
    if max_length is not None:
        config["model_max_length"] = max_length
    write_json(folder / "tokenizer_config.json", config | special)

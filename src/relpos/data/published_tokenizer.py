"""Tokenizers of others: of published checkpoints (WordPiece, byte-level BPE, SentencePiece) with the methods of ours, and a file of
the user's own, with the special tokens that we need.

They need `transformers`. Their special tokens have other ids and other names than ours: `<s>` is the `[CLS]` of
RoBERTa, `</s>` its `[SEP]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from relpos.data.tokenizer import FILE, NAMES, SPACE, Tokenizer
from relpos.errors import RelposError, one_line
from relpos.files import copied, replacing
from relpos.readers import read_bytes, read_json

VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "spm.model", "sentencepiece.bpe.model")
"""Every published tokenizer has one of these files."""

ROLES = {"pad": ("pad_token",), "unk": ("unk_token",), "cls": ("cls_token", "bos_token"), "sep": ("sep_token", "eos_token"),
         "mask": ("mask_token",)}  # fmt: skip
"""What we call a special token → what `transformers` calls it; the first name that a tokenizer has counts."""

ROUNDED = 1024
"""Tables of words are often rounded up: they have fewer rows than this beyond the number of pieces."""


def has_tokenizer(folder: Path) -> bool:
    """Whether there are files of a published tokenizer."""
    return any((folder / name).is_file() for name in VOCABULARIES)


def load_tokenizer(path: Path | str) -> Tokenizer:
    """The tokenizer in a folder: one of ours or, where there is none, that of a published checkpoint.

    Args:
        path: the folder, or the file `tokenizer.model`.

    Raises:
        RelposError: there is neither, or its files are damaged.
    """
    path = Path(path)
    if has_tokenizer(path) and not (path / FILE).is_file():
        return PublishedTokenizer(path)
    return Tokenizer.load(path)


class PublishedTokenizer(Tokenizer):
    """The tokenizer of a published checkpoint, from its folder.

    Raises:
        RelposError: its files are damaged, it lacks a special token, or `transformers` is not installed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            from transformers import AutoTokenizer
        except ImportError:
            raise RelposError(f"tokenizer {path}: needs transformers: pip install transformers") from None
        try:
            # The folder may be a stranger's: code that lies in it is not run.
            self.host: Any = AutoTokenizer.from_pretrained(str(path), local_files_only=True, trust_remote_code=False)
            self.backend = self.host.backend_tokenizer
            # It may name a stranger's code, which whoever opens what `save` writes with `trust_remote_code` would run.
            self.host.init_kwargs.pop("auto_map", None)
            self.backend.encode(
                "\U00010f00"
            )  # of Old Sogdian: where the words have no unknown one, it fails here and not in a text
            self.last = max(self.backend.get_vocab(with_added_tokens=True).values())
        except Exception as error:  # damaged files raise errors of many unrelated types
            raise RelposError(f"tokenizer {path}: {one_line(error)}"[:300]) from None
        # Tokenizers that sentence-transformers wrote cut at 128 tokens and pad; here a text has all its tokens and no others.
        self.backend.no_truncation()
        self.backend.no_padding()
        self._check_size()
        ids = {role: self._id(*kinds) for role, kinds in ROLES.items()}
        self.pad, self.unk, self.cls, self.sep, self.mask = (ids[role] for role in ("pad", "unk", "cls", "sep", "mask"))
        # At least one: where a tokenizer has no template, it puts no special tokens around texts at all.
        self.separators = max(1, self._marks_around("a", "a") - self._marks_around("a", None))

    def _check_size(self) -> None:
        """Refuses a tokenizer whose size does not fit the network in the same folder, or the number of its pieces."""
        try:
            config = read_json(self.path / "config.json", dict)
            key = "vocab_size" if "vocab_size" in config else "vocabulary"  # as an exported network of ours has it
            rows = int(config[key])
        except (ValueError, KeyError, TypeError, OverflowError):  # there is no network in the folder
            pieces = self.backend.get_vocab_size(with_added_tokens=True)
            if self.size >= pieces + ROUNDED:
                raise RelposError(f"tokenizer {self.path}: it has {pieces:,} pieces, and ids up to {self.last:,}") from None
            return
        if not self.size <= rows < self.size + ROUNDED:
            raise RelposError(f"tokenizer {self.path}: its ids go up to {self.last:,}, config.json says {key}={rows:,}")

    @property
    def size(self) -> int:
        return self.last + 1  # some leave numbers out

    def encode(self, texts: list[str]) -> list[npt.NDArray[np.int32]]:
        # Set at each call, because the tokenizer keeps it and `encode_marked` sets it the other way.
        self.backend.encode_special_tokens = True  # the library's name for: special tokens in a text are plain text
        rows = [np.array(row.ids, np.int32) for row in self.backend.encode_batch(list(texts), add_special_tokens=False)]
        # SentencePiece has special tokens among its pieces and may choose one for a text that spells it.
        return [np.where(np.isin(row, self._special), np.int32(self.unk), row) for row in rows]

    def decode(self, ids: Iterable[int]) -> str:
        return str(self.backend.decode([int(i) for i in ids], skip_special_tokens=True))

    def piece(self, number: int) -> str:
        return str(self.backend.id_to_token(int(number)))

    def word_piece(self, number: int) -> str:
        piece = self.backend.id_to_token(int(number))
        if piece is None or int(number) in (self.unk, *self._special):
            return ""
        if self._continues:
            return piece.removeprefix(self._continues) if piece.startswith(self._continues) else SPACE + piece
        return self._characters(piece) if self._is_bytes else str(piece)

    def encode_marked(self, text: str) -> npt.NDArray[np.int64]:
        for name, number in self.typed.items():
            text = text.replace(name, self.piece(number))
        self.backend.encode_special_tokens = False
        return np.array(self.backend.encode(text, add_special_tokens=False).ids, np.int64)

    def decode_marked(self, ids: Iterable[int]) -> str:
        text = self.backend.decode([int(number) for number in ids if int(number) != self.pad], skip_special_tokens=False)
        return " ".join(str(text).split())

    def save(self, folder: Path) -> None:
        with TemporaryDirectory() as made:
            self.host.save_pretrained(made)
            for file in sorted(Path(made).iterdir()):
                copied(file, folder / file.name)

    def _marks_around(self, first: str, second: str | None) -> int:
        """How many special tokens stand around and between two texts, or around one."""

        def tokens(special: bool) -> int:
            return len(self.backend.encode(first, second, add_special_tokens=special).ids)

        return tokens(True) - tokens(False)

    def _id(self, *kinds: str) -> int:
        for kind in kinds:
            number = getattr(self.host, f"{kind}_id", None)
            if number is not None:
                return int(number)
        raise RelposError(f"tokenizer {self.path}: it has no {kinds[0]}")

    @cached_property
    def _special(self) -> list[int]:
        return sorted({self.pad, self.cls, self.sep, self.mask, *self.host.all_special_ids} - {self.unk})

    @cached_property
    def _continues(self) -> str:
        """The prefix of pieces inside a word: WordPiece's `##`; empty where pieces that begin a word are marked instead."""
        model = self.backend.model
        return str(model.continuing_subword_prefix) if type(model).__name__ == "WordPiece" else ""

    @cached_property
    def _is_bytes(self) -> bool:
        """Whether pieces are made of characters that stand for bytes, as in GPT-2 and RoBERTa."""
        return type(self.backend.model).__name__ == "BPE" and bool(re.search("ByteLevel", str(self.backend.pre_tokenizer)))

    def _characters(self, piece: str) -> str:
        """A piece of bytes as text, `▁` for its leading space."""
        text = str(self.backend.decoder.decode([piece]))
        return SPACE + text[1:] if piece.startswith("Ġ") else text


def adopt(file: Path, folder: Path) -> None:
    """Writes into `folder` what `load_tokenizer` reads of a tokenizer that somebody else has made. Its ids stay as they are; a
    special token that it has none for is added behind its pieces.

    Args:
        file: of any name: what it contains says which of the two it is.
        folder: is made where it does not exist.

    Raises:
        RelposError: it is neither, or the library that reads it is not installed.
    """
    content = read_bytes(file)
    folder.mkdir(parents=True, exist_ok=True)
    if content.lstrip()[:1] == b"{":
        _adopt_json(file, folder)
    else:
        _adopt_sentencepiece(content, file, folder)


def _adopt_sentencepiece(content: bytes, file: Path, folder: Path) -> None:
    from sentencepiece import sentencepiece_model_pb2 as form

    kinds = form.ModelProto.SentencePiece  # type: ignore[attr-defined]
    try:
        model = form.ModelProto.FromString(content)  # type: ignore[attr-defined]
        if all(piece.type != kinds.UNKNOWN for piece in model.pieces):  # as of an empty file
            raise ValueError("no piece stands for unknown text")
    except Exception as error:  # protobuf's own class
        raise RelposError(f"tokenizer={file}: neither a SentencePiece model nor a tokenizer.json: {one_line(error)}") from None
    numbers = {piece.piece: number for number, piece in enumerate(model.pieces)}
    for names in NAMES.values():
        name = next((name for name in names if name in numbers), names[0])
        piece = model.pieces[numbers[name]] if name in numbers else model.pieces.add(piece=name, score=0.0)
        piece.type = kinds.CONTROL  # a text that spells it is not encoded as the special token
    with replacing(folder / FILE) as temporary:
        temporary.write_bytes(model.SerializeToString())
    Tokenizer.load(folder)


def _adopt_json(file: Path, folder: Path) -> None:
    try:
        from tokenizers import processors
        from transformers import PreTrainedTokenizerFast
    except ImportError:
        raise RelposError(f"tokenizer={file}: needs transformers: pip install transformers") from None
    try:
        host = PreTrainedTokenizerFast(tokenizer_file=str(file))
    except Exception as error:  # damaged files raise errors of many unrelated types
        raise RelposError(f"tokenizer={file}: not a tokenizer.json that tokenizers reads: {one_line(error)}") from None
    known = host.get_vocab()
    names = NAMES | {"unk": ("[UNK]", "<unk>")}
    host.add_special_tokens({f"{role}_token": next((n for n in some if n in known), some[0]) for role, some in names.items()})
    backend = host.backend_tokenizer
    if not backend.num_special_tokens_to_add(is_pair=False):
        marks = host.cls_token, host.sep_token
        backend.post_processor = processors.TemplateProcessing(
            single=f"{marks[0]}:0 $A:0 {marks[1]}:0",
            pair=f"{marks[0]}:0 $A:0 {marks[1]}:0 $B:0 {marks[1]}:0",
            special_tokens=[(mark, host.convert_tokens_to_ids(mark)) for mark in marks],
        )
    host.save_pretrained(str(folder))
    PublishedTokenizer(folder)

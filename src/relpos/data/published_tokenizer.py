"""Tokenizers not made here: those of published checkpoints (WordPiece, byte-level BPE,
SentencePiece), with the methods of `Tokenizer`, and a file of the user's own, completed by the
special tokens that we need.

They need `transformers`. Their special tokens have other ids and other names than ours: `<s>` is
the `[CLS]` of RoBERTa, `</s>` its `[SEP]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from relpos.data.tokenizer import FILE, NAMES, SPACE, UNKNOWN_WORD, Ids, TextIds, Tokenizer
from relpos.errors import RelposError, one_line, say
from relpos.files import copied, replacing
from relpos.ranges import Width, fits
from relpos.readers import read_bytes, read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders

JSON = "tokenizer.json"
VOCABULARIES = (
    FILE,
    JSON,
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
)
"""Every tokenizer has one of these files; the first is ours."""

ROLES = {"pad": ("pad_token",), "unk": ("unk_token",), "cls": ("cls_token", "bos_token"), "sep": ("sep_token", "eos_token"),
         "mask": ("mask_token",)}  # fmt: skip
"""What we call a special token → what `transformers` calls it; the first name that a tokenizer has
counts."""

WHOLE = ("WordPiece", "WordLevel")
"""Models whose unknown piece stands for a whole word."""

ROUNDED = 1024
"""Tables of words are often rounded up: they have fewer rows than this beyond the number of
pieces."""


def has_tokenizer(folder: Path) -> bool:
    """Whether there are files of a tokenizer."""
    return any((folder / name).is_file() for name in VOCABULARIES)


def load_tokenizer(path: Path | str) -> Tokenizer:
    """The tokenizer in a folder: one of ours or, where there is none, that of a published
    checkpoint.

    Args:
        path: the folder, or the file `tokenizer.model`.

    Raises:
        RelposError: there is neither, or its files are damaged.
    """
    path = Path(path)
    file = path
    if path.is_dir():
        file /= FILE
    if file.is_file():
        return Tokenizer(file)
    if has_tokenizer(path):
        return PublishedTokenizer(path)
    raise RelposError(f"tokenizer {file}: no such file")


class PublishedTokenizer(Tokenizer):
    """The tokenizer of a published checkpoint, from its folder.

    Raises:
        RelposError: its files are damaged, it lacks a special token, or `transformers` is not
            installed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.host = opened(path)
        self.backend = self.host.backend_tokenizer
        self.last = max(self.backend.get_vocab(with_added_tokens=True).values())
        self._check_size()
        for role, kinds in ROLES.items():
            setattr(self, role, self._id(*kinds))
        # At least one: where a tokenizer has no template, it puts no special tokens around texts at
        # all.
        single, pair = map(self.backend.num_special_tokens_to_add, (False, True))
        self.separators = max(1, pair - single)

    def _check_size(self) -> None:
        """Refuses a tokenizer whose size does not fit the network in the same folder, or the number
        of its pieces."""
        config = read_json(self.path / "config.json", dict, {})
        # exported networks of ours have `vocabulary`
        key = next((key for key in ("vocab_size", "vocabulary") if key in config), "")
        rows = config.get(key)
        if not isinstance(rows, int):  # there is no network in the folder
            pieces = self.backend.get_vocab_size(with_added_tokens=True)
            if self.size >= pieces + ROUNDED:
                raise RelposError(
                    f"tokenizer {self.path}: it has {pieces:,} pieces, and ids up to {self.last:,}"
                )
        elif not self.size <= rows < self.size + ROUNDED:
            raise RelposError(
                f"tokenizer {self.path}: its ids go up to {self.last:,}, config.json "
                f"says {key}={rows:,}"
            )

    @property
    def size(self) -> int:
        return self.last + 1  # a vocabulary may leave numbers out

    def encode(self, texts: list[str]) -> list[TextIds]:
        # Special tokens in a text are plain text. Set at each call, because the tokenizer keeps the
        # option and `encode_marked` sets it the other way.
        self.backend.encode_special_tokens = True
        rows = [
            np.array(row.ids, np.int32)
            for row in self.backend.encode_batch(texts, add_special_tokens=False)
        ]
        # SentencePiece has special tokens among its pieces and may choose one for a text that
        # spells it.
        return [np.where(np.isin(row, self._special), np.int32(self.unk), row) for row in rows]

    def decode(self, ids: Iterable[int]) -> str:
        return str(self.backend.decode(list(map(int, ids)), skip_special_tokens=True))

    def piece(self, number: int) -> str:
        return str(self.backend.id_to_token(int(number)))

    def word_piece(self, number: int) -> str:
        piece, (kind, inside, end) = self.backend.id_to_token(int(number)), self._forms
        is_unknown = number == self.unk
        if piece is None or number in self._special or (is_unknown and kind not in WHOLE):
            return ""
        if is_unknown:
            return UNKNOWN_WORD
        if kind == "WordLevel":
            return SPACE + piece.removeprefix(SPACE)
        if inside and piece.startswith(inside):
            return piece.removeprefix(inside)
        if inside:
            return SPACE + piece
        if end:
            return piece.removesuffix(end) + SPACE * piece.endswith(end)
        if self._of_bytes:
            return self._of_bytes.decode([piece]).replace(" ", SPACE)
        return str(piece)

    @property
    def marks_ends(self) -> bool:
        return bool(self._forms[2])

    def sample(self) -> tuple[str, int]:
        pieces = [self.word_piece(number) for number in range(0, self.size, self.size // 1000 + 1)]
        spaced = [piece.strip(SPACE) for piece in pieces if SPACE in piece]
        # A byte-level space and the unknown word are spaced in any vocabulary, and no letters.
        words = [*filter(str.isalpha, spaced)] or [*filter(str.isalnum, spaced + pieces)]
        text = " ".join(words)
        parts = self.backend.encode(text, add_special_tokens=False).word_ids
        return text, max(len(set(parts)), len(text.split()))

    def encode_marked(self, text: str) -> Ids:
        for name, number in self.typed.items():
            text = text.replace(name, self.piece(number))
        self.backend.encode_special_tokens = False
        return np.array(self.backend.encode(text, add_special_tokens=False).ids, np.int64)

    def decode_marked(self, ids: Iterable[int]) -> str:
        text = self.backend.decode(
            [int(number) for number in ids if int(number) != self.pad], skip_special_tokens=False
        )
        return " ".join(str(text).split())

    def save(self, folder: Path) -> None:
        with TemporaryDirectory() as temporary:
            self.host.save_pretrained(temporary)
            for file in sorted(Path(temporary).iterdir()):
                copied(file, folder / file.name)

    def _id(self, *kinds: str) -> int:
        for kind in kinds:
            number = getattr(self.host, f"{kind}_id", None)
            if number is not None:
                return int(number)
        raise RelposError(f"tokenizer {self.path}: it has no {kinds[0]}")

    @cached_property
    def _special(self) -> list[int]:
        special = {*self.specials.values(), *self.host.all_special_ids}
        return sorted(special - {self.unk})

    @cached_property
    def _forms(self) -> tuple[str, str, str]:
        """The kind of the model, what pieces inside a word begin with (WordPiece's `##`), and what
        those at its end end with."""
        model = self.backend.model
        inside = getattr(model, "continuing_subword_prefix", None)
        end = getattr(model, "end_of_word_suffix", None)
        return type(model).__name__, inside or "", end or ""

    @cached_property
    def _of_bytes(self) -> decoders.ByteLevel | None:
        """The decoder of pieces made of characters that stand for bytes, as in GPT-2 and RoBERTa;
        None where they are not."""
        from tokenizers import decoders

        if self._forms[0] == "BPE" and "ByteLevel" in str(self.backend.pre_tokenizer):
            return decoders.ByteLevel()
        return None


def opened(path: Path) -> Any:
    """The tokenizer of a folder, or of a file `tokenizer.json`, in `transformers`; a text has the
    same ids each time.

    A class that a folder names may make a tokenizer of its own from the words and leave out the
    rest of `tokenizer.json`: only the names of the special tokens are read from it.

    Raises:
        RelposError: the files are damaged, or `transformers` is not installed.
    """
    try:
        from tokenizers import Tokenizer as Backend
        from transformers import AutoTokenizer, PreTrainedTokenizerFast
    except ImportError:
        raise RelposError(
            f"tokenizer {path}: needs transformers: pip install transformers"
        ) from None
    file, special_tokens, differs, backend = path, {}, False, None
    if path.is_dir():
        file = path / JSON
    try:
        if file.is_file():
            backend = _settled(Backend.from_file(str(file)))
        if path.is_dir():
            try:  # the folder may be a stranger's: code that lies in it is not run
                theirs = AutoTokenizer.from_pretrained(
                    str(path),
                    local_files_only=True,
                    trust_remote_code=False,
                )
                their_backend = _settled(theirs.backend_tokenizer)
                backend = backend or their_backend
                differs = _ids_of_pieces(backend) != _ids_of_pieces(their_backend)
            except Exception:  # many unrelated types
                if backend is None:
                    raise
                theirs = PreTrainedTokenizerFast.from_pretrained(str(path), local_files_only=True)
                differs = True
            special_tokens = theirs.special_tokens_map
        # Nothing else of `theirs` is kept: it may name a stranger's code, which would run when what
        # `save` writes is opened.
        host = PreTrainedTokenizerFast(tokenizer_object=backend, **special_tokens)
        # A letter of Old Sogdian: a vocabulary without an unknown piece fails here and not in a
        # text.
        host.backend_tokenizer.encode("\U00010f00")
    except Exception as error:  # damaged files raise errors of many unrelated types
        raise RelposError(f"tokenizer {path}: {one_line(error)}"[:300]) from None
    if differs:
        say(
            f"relpos: tokenizer {path}: {JSON} counts; the class of transformers that "
            f"tokenizer_config.json or config.json "
            "names would give other ids"
        )
    return host


def _settled(backend: Backend) -> Backend:
    """The tokenizer without truncation, padding and sampling, so that a text has all its tokens and
    the same ones each time.

    Raises:
        RelposError: an id is higher than the rows of any network. The libraries take memory for
            each number below it.
    """
    pieces = backend.get_vocab()
    if not fits(last := max(pieces.values(), default=1), Width):
        raise RelposError(f"it has {len(pieces):,} pieces, and ids up to {last:,}")
    backend.no_truncation()  # tokenizers of sentence-transformers cut at 128 tokens and pad
    backend.no_padding()
    for chance in ("dropout", "alpha", "nbest_size"):
        if hasattr(backend.model, chance):
            setattr(backend.model, chance, None)
    return backend


def _ids_of_pieces(backend: Backend) -> list[int]:
    """The ids of a text of a tokenizer's pieces, all of them or a thousand."""
    pieces = sorted(backend.get_vocab())
    text = " ".join(pieces[:: len(pieces) // 1000 + 1]).replace("##", "").replace(SPACE, " ")
    return backend.encode(
        f"{text} Ein Müller, 12 漢字 don't",
        add_special_tokens=False,
    ).ids


def adopt(path: Path, folder: Path) -> None:
    """Writes into `folder` what `load_tokenizer` reads of a tokenizer that somebody else has made.
    Its ids stay as they are; a special token that it has none for is added behind its pieces.

    Args:
        path: a SentencePiece model or a `tokenizer.json`, told apart by its content; or a folder
            with a tokenizer.
        folder: is made where it does not exist.

    Raises:
        RelposError: `path` is none of these, or the library that reads it is not installed.
    """
    file, content = path, b""
    if (path / FILE).is_file():
        file = path / FILE
    if not file.is_dir():
        content = read_bytes(file)
    folder.mkdir(parents=True, exist_ok=True)
    if file.is_dir() or content.lstrip()[:1] == b"{":
        _adopt_fast(file, folder)
    else:
        _adopt_sentencepiece(content, file, folder)


def _adopt_sentencepiece(content: bytes, file: Path, folder: Path) -> None:
    from sentencepiece import sentencepiece_model_pb2 as form

    kinds = form.ModelProto.SentencePiece  # type: ignore[attr-defined]
    try:
        model = form.ModelProto.FromString(content)  # type: ignore[attr-defined]
    except Exception:  # protobuf's own class
        model = form.ModelProto()  # type: ignore[attr-defined]
    if not any(piece.type == kinds.UNKNOWN for piece in model.pieces):
        raise RelposError(
            f"tokenizer={file}: neither a SentencePiece model nor a tokenizer.json; of a vocab.txt "
            f"name the folder that it lies in"
        )
    pieces = {piece.piece: piece for piece in model.pieces}
    for names in NAMES.values():
        name = next((name for name in names if name in pieces), names[0])
        piece = pieces.get(name) or model.pieces.add(piece=name, score=0.0)
        piece.type = kinds.CONTROL  # a text that spells it is not encoded as the special token
    with replacing(folder / FILE) as temporary:
        temporary.write_bytes(model.SerializeToString())
    Tokenizer(folder / FILE)


def _adopt_fast(path: Path, folder: Path) -> None:
    try:
        host = opened(path)
    except RelposError as error:
        raise RelposError(
            f"tokenizer={path}: no tokenizer.json that tokenizers reads: "
            f"{str(error).partition(': ')[2]}"
        ) from None
    pieces = host.get_vocab()
    for role, names in (NAMES | {"unk": ("[UNK]", "<unk>")}).items():
        if all(getattr(host, kind) is None for kind in ROLES[role]):
            name = next((name for name in names if name in pieces), names[0])
            host.add_special_tokens({f"{role}_token": name})
    host.save_pretrained(str(folder))
    PublishedTokenizer(folder)

"""The tokenizer: a SentencePiece model that holds everything it needs, case folding too; by default
an uncased unigram model.

Differs from the authors' code: ids 0 [PAD], 1 <unk>, 2 [CLS], 3 [SEP], 4 [MASK] and then the pieces
(they append the special ones); case folding by the rule `nmt_nfkc_cf` inside the model, in training
as in encoding (they lower-case and strip accents outside, and only when encoding); `vocabulary`
counts every id (30,004 in all).
"""

from __future__ import annotations

import io
import random
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import exp, floor, log
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import sentencepiece

from relpos.data.documents import UNKNOWN, Document, portions, split
from relpos.errors import RelposError, from_library, one_line, plural
from relpos.files import replacing
from relpos.readers import check_recorded, read_bytes

Ids = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
TextIds = npt.NDArray[np.int32]
"""The ids of a text (n,)."""
Kind = Literal["unigram", "bpe"]
PAD, UNK, CLS, SEP, MASK = range(5)
NAMES = {
    "pad": ("[PAD]", "<pad>"),
    "cls": ("[CLS]", "<s>"),
    "sep": ("[SEP]", "</s>"),
    "mask": ("[MASK]", "<mask>"),
}
"""What we call a special token -> its names in tokenizers of ours and of others."""
FILE = "tokenizer.model"
SPACE = "▁"  # U+2581, SentencePiece's white space
UNKNOWN_WORD = f"{SPACE}\ufffd"
"""The `word_piece` of an unknown piece that stands for a whole word."""
WORD = 3  # SentencePiece's number in `trainer_spec.model_type` for a model of whole words
LONGEST = 4192  # bytes of a sentence; SentencePiece does not train on longer ones
# SentencePiece: the ids that no vocabulary can do without
NEEDED = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


@dataclass(frozen=True)
class Marks:
    """The ids of the special tokens that examples are made of; the defaults are ours."""

    pad: int = PAD
    cls: int = CLS
    sep: int = SEP
    mask: int = MASK


OURS = Marks()


def train_tokenizer(
    documents: Iterable[Document], folder: Path, vocabulary: int, sample: int, threads: int, kind: Kind = "unigram",
    cased: bool = False, byte_fallback: bool = False,
) -> None:  # fmt: skip
    """Write `folder`/tokenizer.model, trained on `sample` sentences drawn evenly from all
    documents.

    The pieces depend on the documents, `vocabulary`, `sample` and `threads` (the sums of the EM
    steps are split by thread), the kind of model, `cased` (case is kept) and `byte_fallback` (a
    character without a piece is encoded as its bytes, which are 256 of the pieces), and on nothing
    else. A small text yields fewer than `vocabulary` pieces.

    Raises:
        RelposError: there is no text, none of its sentences is short enough, or `vocabulary` has no
            room for its characters.
    """
    # Left in, the character that stands for WikiText's <unk> would become a piece, and would no
    # longer be encoded as unknown.
    sentences = (
        sentence.replace(UNKNOWN, "")
        for document in documents
        for portion in portions(document.lines)
        for sentence in split(portion)
    )
    drawn = reservoir(sentences, sample)
    if not drawn:
        raise RelposError("data: the corpus has no sentences")
    if all(len(sentence.encode()) > LONGEST for sentence in drawn):
        raise RelposError(
            f"data: all sentences are longer than {LONGEST:,} bytes, and a tokenizer is trained on "
            "shorter ones only; is the text one long line without full stops? Put each sentence, "
            "or each paragraph, on a line of its own"
        )
    model = io.BytesIO()
    rule = "nmt_nfkc_cf"
    if cased:
        rule = "nmt_nfkc"
    try:
        sentencepiece.SentencePieceTrainer.train(
            # With less room than the special tokens need, SentencePiece may fail before it says how
            # many ids the characters need.
            sentence_iterator=iter(drawn), model_writer=model, model_type=kind, vocab_size=max(vocabulary, MASK + 1),
            hard_vocab_limit=False, normalization_rule_name=rule,
            num_threads=threads, minloglevel=2,
            pad_id=PAD, pad_piece="[PAD]", unk_id=UNK, unk_piece="<unk>", bos_id=-1, eos_id=-1,
            # Control symbols, not user-defined ones: a text that spells [MASK] must not be encoded
            # as that token.
            control_symbols=["[CLS]", "[SEP]", "[MASK]"], max_sentence_length=LONGEST, byte_fallback=byte_fallback,
        )  # fmt: skip
    except RuntimeError as error:
        if needed := NEEDED.search(str(error)):
            raise RelposError(
                f"vocabulary={vocabulary}: too small for this text, whose single characters and "
                f"the {MASK + 1} special tokens make {needed[1]} ids: vocabulary={needed[1]} or more"
            ) from None
        raise RelposError(
            f"vocabulary={vocabulary}: no tokenizer from {plural(len(drawn), 'sentence')}: "
            f"{one_line(error)}"
        ) from None
    with replacing(folder / FILE) as temporary:
        temporary.write_bytes(model.getvalue())


def reservoir(stream: Iterable[str], size: int) -> list[str]:
    """`size` items of a stream, each as probable as any, in the memory of `size` items (Li 1994,
    algorithm L)."""
    draw = random.Random(0)
    stream = iter(stream)
    items = list(islice(stream, size))
    w = 1.0
    while True:
        w *= exp(log(draw.random()) / size)
        passed_over = floor(log(draw.random()) / log(1 - w))
        item = next(islice(stream, passed_over, None), None)
        if item is None:
            return items
        items[draw.randrange(size)] = item


class Tokenizer:
    """Text → ids. `encode` never returns special ids: it reads `[MASK]` in a text as text,
    `encode_marked` as the special token.

    `relpos.data.published_tokenizer` has a class with the same methods for tokenizers of published
    checkpoints.
    """

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int
    separators = 1
    """How many [SEP] stand between the two texts of a pair; RoBERTa has two."""

    def __init__(self, path: Path) -> None:
        self.path = path
        check_recorded(path)
        content = read_bytes(path)
        if not content:  # sentencepiece would make a tokenizer without pieces
            raise RelposError(f"tokenizer {path}: it is empty")
        with from_library(f"tokenizer {path}"):
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        self.unk = self.processor.unk_id()
        for role, names in NAMES.items():
            numbers = map(self.processor.piece_to_id, names)
            ids = [number for number in numbers if self.piece(number) in names]
            if not ids:
                raise RelposError(
                    f"tokenizer {path}: it has no {names[0]}; tokenizer=FILE adds what is missing"
                )
            setattr(self, role, ids[0])

    @property
    def marks(self) -> Marks:
        """The special tokens of examples."""
        return Marks(self.pad, self.cls, self.sep, self.mask)

    @property
    def size(self) -> int:
        """Number of ids, the special ones included."""
        return int(self.processor.get_piece_size())

    def encode(self, texts: list[str]) -> list[TextIds]:
        """The ids of each text, without special ones."""
        # By default each of the encoding processes would share its texts out among as many threads
        # as there are processors.
        return self.processor.encode(
            texts,
            return_type="numpy",
            num_threads=1,
        )

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids (case-folded), without special tokens."""
        return str(self.processor.decode(list(map(int, ids))))

    @property
    def specials(self) -> dict[str, int]:
        """Name → id of the special tokens, `<unk>` not among them."""
        return {self.piece(number): number for number in self.typed.values()}

    @property
    def typed(self) -> dict[str, int]:
        """What the user types, for any tokenizer → the id of the special token."""
        return {names[0]: getattr(self, role) for role, names in NAMES.items()}

    def piece(self, number: int) -> str:
        """The piece of an id; one that begins a word begins with `▁`."""
        return str(self.processor.id_to_piece(int(number)))

    def word_piece(self, number: int) -> str:
        """The piece of an id, with `▁` where it begins, or ends, a word; empty for special tokens,
        the unknown one and bytes."""
        processor = self.processor
        if processor.is_unknown(number) and self.proto.trainer_spec.model_type == WORD:
            return UNKNOWN_WORD
        if (
            processor.is_control(number)
            or processor.is_unknown(number)
            or processor.is_byte(number)
        ):
            return ""
        return self.piece(number)

    def sample(self) -> tuple[str, int]:
        """A text in which `word_piece` can be tried, and how many words it has; SentencePiece's
        marks need no trial."""
        return "", 0

    def save(self, folder: Path) -> None:
        """Writes the files from which `load_tokenizer` makes the same tokenizer."""
        with replacing(folder / FILE) as temporary:
            shutil.copyfile(self.path, temporary)

    def encode_marked(self, text: str) -> Ids:
        """(n,) the ids of a text in which `[MASK]`, `[SEP]`, `[CLS]` and `[PAD]` are tokens; other
        text is encoded as usual.

        A special token takes the place of a word, with the space before it: text after it begins a
        word only after a space.
        """
        ids: list[int] = []
        specials = self.specials | self.typed
        keeps_spaces = not self.proto.normalizer_spec.remove_extra_whitespaces
        for part in re.split(rf"\s*({'|'.join(map(re.escape, specials))})", text):
            if part in specials:
                ids.append(specials[part])
            else:
                # Where all spaces are kept, the one before a word is the word's own.
                processor = self.processor
                if ids and not self.marks_ends and (keeps_spaces or not part[:1].isspace()):
                    processor = self._without_prefix
                ids += processor.encode(part)
        return np.array(ids, np.int64)

    def marked_ids(self, text: str) -> Ids:
        """(n,) `encode_marked` of a text, with [CLS] before and [SEP] after it unless it has them
        already.

        Raises:
            RelposError: the text is empty but for [CLS], [SEP] and [PAD].
        """
        ids = self.encode_marked(text).tolist()
        if not set(ids) - {self.cls, self.sep, self.pad}:
            raise RelposError(f"text={text!r}: there is no token in it")
        if ids[0] != self.cls:
            ids.insert(0, self.cls)
        if ids[-1] != self.sep:
            ids.append(self.sep)
        return np.array(ids, np.int64)

    def is_special(self, ids: Ids) -> Bools:
        """(n,) → (n,): which tokens are special. The unknown token is not: it stands for some
        text."""
        return np.isin(ids, list(self.specials.values()))

    def decode_marked(self, ids: Iterable[int]) -> str:
        """The text of some ids, with special tokens by name and without padding."""
        text = b""
        for number in map(int, ids):
            if number == self.pad:
                continue
            piece = self.piece(number)
            if number in (self.cls, self.sep, self.mask):
                piece = f"▁{piece}"
            if self.processor.is_byte(number):  # <0xC3>
                text += bytes([int(piece[1:-1], 16)])
            else:
                text += piece.encode()
        return text.decode(errors="replace").replace("▁", " ").strip()

    @cached_property
    def proto(self) -> Any:
        """The SentencePiece model as its file describes it."""
        from sentencepiece import sentencepiece_model_pb2

        return sentencepiece_model_pb2.ModelProto.FromString(read_bytes(self.path))  # type: ignore[attr-defined]

    @property
    def marks_ends(self) -> bool:
        """Whether `▁` stands at the ends of words and not at their beginnings."""
        return bool(self.proto.trainer_spec.treat_whitespace_as_suffix)

    @cached_property
    def _without_prefix(self) -> sentencepiece.SentencePieceProcessor:
        """The same model for a text that continues a word: it adds no space in front, as
        SentencePiece otherwise does."""
        model = type(self.proto)()
        model.CopyFrom(self.proto)
        model.normalizer_spec.add_dummy_prefix = False
        return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())

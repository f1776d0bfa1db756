"""Tokenizers of other kinds, trained here or brought along: German, code and proteins; ids stay as they are."""

import io
import random
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from relpos.data.documents import Document
from relpos.data.fast_tokenizer import fast_tokenizer
from relpos.data.published_tokenizer import adopt, load_tokenizer
from relpos.data.tokenizer import Tokenizer, train_tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError

tokenizers = pytest.importorskip("tokenizers", reason="needs transformers")

GERMAN = [
    f"{who} {does} die {what} am {when}, ohne Straßenlärm und Übermut."
    for who in ("Der Bäcker", "Die Ärztin", "Jürgen", "Das Mädchen")
    for does in ("überquert", "grüßt", "sieht", "verläßt")
    for what in ("Brücke", "Größe", "Tür", "Häuser")
    for when in ("Morgen", "Abend", "Fluß")
]
CODE = [f"def f{n}(x_{n}): return [x_{n} + {n} for i in range({n * n}) if i != {n}]  # {{}} -> x" for n in range(120)]
PROTEINS = ["".join(random.Random(n).choices("ACDEFGHIKLMNPQRSTVWY", k=90)) for n in range(120)]
TEXTS = {"german": GERMAN, "code": CODE, "proteins": PROTEINS}
ODD = ["", " ", "Zwei  Wörter ", "ÄÖÜ ẞ ß", "☃ und 漢字", "a\tb", "x" * 50, "🙂🙂", "<0x41>", "e\u0301", "ﬁ"]


def trained(folder: Path, texts: list[str], **how: Any) -> Tokenizer:
    documents = [Document("text", iter(texts))]
    train_tokenizer(documents, folder, **{"vocabulary": 500, "sample": 1000, "threads": 1} | how)
    return Tokenizer.load(folder)


def ids(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [row.tolist() for row in tokenizer.encode(texts)]


@pytest.mark.parametrize("byte_fallback", [False, True])
@pytest.mark.parametrize("cased", [False, True])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("texts", TEXTS)
def test_the_fast_tokenizer_of_each_kind_gives_its_ids(
    texts: str, kind: str, cased: bool, byte_fallback: bool, tmp_path: Path
) -> None:
    ours = trained(tmp_path, TEXTS[texts], kind=kind, cased=cased, byte_fallback=byte_fallback)
    fast = fast_tokenizer(ours)
    assert [row.ids for row in fast.encode_batch(TEXTS[texts] + ODD, add_special_tokens=False)] == ids(ours, TEXTS[texts] + ODD)


def test_german_keeps_its_case_and_letters_where_it_is_asked_to(tmp_path: Path) -> None:
    cased, folded = trained(tmp_path / "a", GERMAN, cased=True), trained(tmp_path / "b", GERMAN)
    (row,) = cased.encode(["Die Ärztin grüßt Jürgen"])
    assert cased.decode(row) == "Die Ärztin grüßt Jürgen"
    (row,) = folded.encode(["Die Ärztin grüßt Jürgen"])
    assert folded.decode(row) == "die ärztin grüßt jürgen"


def test_code_comes_back_sign_by_sign(tmp_path: Path) -> None:
    ours = trained(tmp_path, CODE, kind="bpe", cased=True, byte_fallback=True)
    assert [ours.decode(row) for row in ours.encode(CODE)] == [" ".join(line.split()) for line in CODE]


def test_a_protein_has_no_unknown_piece_and_is_one_word(tmp_path: Path) -> None:
    ours = trained(tmp_path, PROTEINS, cased=True)
    rows = ours.encode(PROTEINS)
    assert not any((row == ours.unk).any() for row in rows)
    assert [len(Words(ours).split(row)) for row in rows] == [1] * len(rows)


def test_a_character_without_a_piece_is_its_bytes(tmp_path: Path) -> None:
    ours = trained(tmp_path, GERMAN, byte_fallback=True)
    (row,) = ours.encode(["der ☃ am abend"])
    assert ours.unk not in row
    assert ours.decode(row) == "der ☃ am abend"
    assert ours.decode_marked(ours.encode_marked("der ☃[MASK] abend")) == "der ☃ [MASK] abend"
    assert [Words(ours).numbers(row)[place] for place in (0, -1)] == [0, 3]


@pytest.mark.parametrize("dials", [{}, {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity"}])
def test_a_sentencepiece_model_keeps_its_ids_and_gets_what_it_lacks(dials: dict[str, Any], tmp_path: Path) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(GERMAN), model_writer=model, vocab_size=400, hard_vocab_limit=False, minloglevel=2,
        remove_extra_whitespaces=not dials, add_dummy_prefix=True, **dials,
    )  # fmt: skip
    (tmp_path / "theirs.bin").write_bytes(model.getvalue())
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    adopt(tmp_path / "theirs.bin", tmp_path / "ours")
    ours = load_tokenizer(tmp_path / "ours")
    texts = GERMAN + [text for text in ODD if text != " " or not dials]  # see what the fast tokenizer differs in
    assert ids(ours, texts) == theirs.encode(texts)
    assert [row.ids for row in fast_tokenizer(ours).encode_batch(texts, add_special_tokens=False)] == theirs.encode(texts)
    size = theirs.get_piece_size()
    assert (ours.unk, ours.cls, ours.sep, ours.pad, ours.mask, ours.size) == (0, 1, 2, size, size + 1, size + 2)
    marked = ours.encode_marked("Der [MASK] grüßt").tolist()
    assert marked == [*theirs.encode("Der"), ours.mask, *theirs.encode("grüßt")]
    assert ours.decode_marked(ours.encode_marked("Der [MASK] grüßt")) == "Der [MASK] grüßt"


def stranger(folder: Path, texts: list[str], special: list[str]) -> Any:
    """A tokenizer.json of bytes, as somebody else would make it, and the tokenizer in it."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts, tokenizers.trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=alphabet)
    )
    folder.mkdir(exist_ok=True)
    made.save(str(folder / "bytes.json"))
    return made


@pytest.mark.parametrize("special", [["<s>", "</s>", "<pad>", "<unk>", "<mask>"], ["<|endoftext|>"], []])
def test_a_tokenizer_json_keeps_its_ids_and_gets_what_it_lacks(special: list[str], tmp_path: Path) -> None:
    theirs = stranger(tmp_path, CODE, special)
    adopt(tmp_path / "bytes.json", tmp_path / "ours")
    ours = load_tokenizer(tmp_path / "ours")
    texts = CODE + GERMAN
    assert ids(ours, texts) == [row.ids for row in theirs.encode_batch(texts)]
    assert ours.size == theirs.get_vocab_size() + (5 if len(special) < 5 else 0)
    assert len({ours.pad, ours.unk, ours.cls, ours.sep, ours.mask}) == 5
    assert ours.host("def f")["input_ids"] == [ours.cls, *theirs.encode("def f").ids, ours.sep]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"a": ', b"no tokenizer", b"\x00\x01"])
def test_what_is_no_tokenizer_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(RelposError, match=r"^tokenizer=.*/file: n.* tokenizer\.json"):
        adopt(tmp_path / "file", tmp_path / "ours")
